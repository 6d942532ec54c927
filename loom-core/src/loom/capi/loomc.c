/* The C interface as a shell around loom.capi.bridge; see loomc.h for what it promises. */
#define PY_SSIZE_T_CLEAN
#include "loomc.h"

#include <Python.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#ifndef LOOMC_PYTHON
#define LOOMC_PYTHON NULL
#endif

/* Every object is a counted reference to a Python one. A workspace also holds the diagnostics of its last call. */
typedef struct object {
  atomic_size_t references;
  PyObject* value;
} object;

#define OBJECT(type) \
  struct loomc_##type { \
    object base; \
  }
OBJECT(context);
OBJECT(target);
OBJECT(module);
OBJECT(index);
OBJECT(compilation);
OBJECT(launch_config);
OBJECT(bytes);

struct loomc_workspace {
  loomc_context* context;
  loomc_bytes* diagnostics;
};

static void* wrap(PyObject* value) {
  object* made = malloc(sizeof(object));
  if (made == NULL) {
    Py_XDECREF(value);
    return NULL;
  }
  atomic_init(&made->references, 1);
  made->value = value;
  return made;
}

static void retain(void* pointer) {
  if (pointer != NULL) atomic_fetch_add(&((object*)pointer)->references, 1);
}

static void release(void* pointer) {
  object* dropped = pointer;
  if (dropped == NULL || atomic_fetch_sub(&dropped->references, 1) != 1) return;
  PyGILState_STATE state = PyGILState_Ensure();
  Py_XDECREF(dropped->value);
  PyGILState_Release(state);
  free(dropped);
}

#define COUNTED(type) \
  void loomc_##type##_retain(loomc_##type* pointer) { retain(pointer); } \
  void loomc_##type##_release(loomc_##type* pointer) { release(pointer); }
COUNTED(context)
COUNTED(target)
COUNTED(module)
COUNTED(index)
COUNTED(compilation)
COUNTED(launch_config)
COUNTED(bytes)

const char* loomc_bytes_data(const loomc_bytes* bytes) {
  return bytes == NULL ? NULL : PyBytes_AS_STRING(bytes->base.value);
}

size_t loomc_bytes_size(const loomc_bytes* bytes) {
  return bytes == NULL ? 0 : (size_t)PyBytes_GET_SIZE(bytes->base.value);
}

/* -- environment -------------------------------------------------------------------------------------------- */

static pthread_mutex_t starting = PTHREAD_MUTEX_INITIALIZER;

/* Starts Python unless it runs. Its lock is not held afterwards. */
static PyStatus start(const char* python) {
  PyStatus status = PyStatus_Ok();
  pthread_mutex_lock(&starting);
  if (!Py_IsInitialized()) {
    PyConfig config;
    PyConfig_InitPythonConfig(&config);
    config.install_signal_handlers = 0;
    config.parse_argv = 0;
    if (python == NULL) python = LOOMC_PYTHON;
    if (python != NULL) status = PyConfig_SetBytesString(&config, &config.program_name, python);
    if (!PyStatus_Exception(status)) status = Py_InitializeFromConfig(&config);
    PyConfig_Clear(&config);
    if (!PyStatus_Exception(status)) PyEval_SaveThread();
  }
  pthread_mutex_unlock(&starting);
  return status;
}

static loomc_bytes* bytes_of(const char* text) {
  PyObject* value = PyBytes_FromString(text);
  return value == NULL ? NULL : wrap(value);
}

/* Turns the pending Python error into text and clears it. */
static loomc_bytes* error_text(void) {
  PyObject *type, *value, *trace;
  PyErr_Fetch(&type, &value, &trace);
  PyErr_NormalizeException(&type, &value, &trace);
  PyObject* text = value == NULL ? NULL : PyObject_Repr(value);
  const char* shown = text == NULL ? "an error without description" : PyUnicode_AsUTF8(text);
  loomc_bytes* bytes = bytes_of(shown == NULL ? "an error without description" : shown);
  Py_XDECREF(text);
  Py_XDECREF(type);
  Py_XDECREF(value);
  Py_XDECREF(trace);
  PyErr_Clear();
  return bytes;
}

/* Calls a function of the bridge with a new reference to a tuple of arguments, and gives out what it returns: a status,
 * a value and diagnostics. The lock is held. */
static loomc_status call(PyObject* bridge, const char* name, PyObject* arguments, PyObject** out_value,
                         loomc_bytes** out_diagnostics) {
  *out_value = NULL;
  *out_diagnostics = NULL;
  PyObject* function = arguments == NULL ? NULL : PyObject_GetAttrString(bridge, name);
  PyObject* answer = function == NULL ? NULL : PyObject_CallObject(function, arguments);
  Py_XDECREF(function);
  Py_XDECREF(arguments);
  int status = LOOMC_INTERNAL;
  PyObject *value, *diagnostics;
  if (answer == NULL || !PyArg_ParseTuple(answer, "iOS", &status, &value, &diagnostics)) {
    bool exhausted = PyErr_ExceptionMatches(PyExc_MemoryError);
    bool not_text = PyErr_ExceptionMatches(PyExc_UnicodeDecodeError);
    *out_diagnostics = error_text();
    Py_XDECREF(answer);
    return exhausted ? LOOMC_OUT_OF_MEMORY : not_text ? LOOMC_INVALID_ARGUMENT : LOOMC_INTERNAL;
  }
  Py_INCREF(diagnostics);
  *out_diagnostics = wrap(diagnostics);
  if (status == LOOMC_OK) {
    Py_INCREF(value);
    *out_value = value;
  }
  Py_DECREF(answer);
  return (loomc_status)status;
}

loomc_status loomc_context_create(const char* python, loomc_context** out_context, loomc_bytes** out_diagnostics) {
  if (out_diagnostics != NULL) *out_diagnostics = NULL;
  if (out_context == NULL) return LOOMC_INVALID_ARGUMENT;
  *out_context = NULL;
  PyStatus started = start(python);
  if (PyStatus_Exception(started)) return LOOMC_UNAVAILABLE;
  PyGILState_STATE state = PyGILState_Ensure();
  loomc_status status = LOOMC_OK;
  PyObject* bridge = PyImport_ImportModule("loom.capi.bridge");
  if (bridge == NULL) {
    loomc_bytes* text = error_text();
    if (out_diagnostics != NULL) {
      *out_diagnostics = text;
    } else {
      release(text);
    }
    status = LOOMC_UNAVAILABLE;
  } else {
    *out_context = wrap(bridge);
    if (*out_context == NULL) status = LOOMC_OUT_OF_MEMORY;
  }
  PyGILState_Release(state);
  return status;
}

loomc_status loomc_workspace_create(loomc_context* context, loomc_workspace** out_workspace) {
  if (out_workspace == NULL) return LOOMC_INVALID_ARGUMENT;
  *out_workspace = NULL;
  if (context == NULL) return LOOMC_INVALID_ARGUMENT;
  loomc_workspace* made = malloc(sizeof(loomc_workspace));
  if (made == NULL) return LOOMC_OUT_OF_MEMORY;
  retain(context);
  made->context = context;
  made->diagnostics = NULL;
  *out_workspace = made;
  return LOOMC_OK;
}

void loomc_workspace_release(loomc_workspace* workspace) {
  if (workspace == NULL) return;
  release(workspace->diagnostics);
  release(workspace->context);
  free(workspace);
}

loomc_bytes* loomc_workspace_diagnostics(loomc_workspace* workspace) {
  if (workspace == NULL) return NULL;
  if (workspace->diagnostics == NULL) {
    PyGILState_STATE state = PyGILState_Ensure();
    workspace->diagnostics = bytes_of("");
    PyGILState_Release(state);
  }
  retain(workspace->diagnostics);
  return workspace->diagnostics;
}

/* -- calls ---------------------------------------------------------------------------------------------------- */

/* Calls with the lock held between ENTER and leave(). */
#define ENTER(...) \
  if (workspace == NULL || !(__VA_ARGS__)) return LOOMC_INVALID_ARGUMENT; \
  PyGILState_STATE state = PyGILState_Ensure()

static loomc_status perform(loomc_workspace* workspace, const char* name, PyObject* arguments, PyObject** out_value) {
  loomc_bytes* diagnostics;
  loomc_status status = call(workspace->context->base.value, name, arguments, out_value, &diagnostics);
  release(workspace->diagnostics);
  workspace->diagnostics = diagnostics;
  return status;
}

/* Performs a call whose value becomes an object, and gives the lock back. */
static loomc_status give(loomc_workspace* workspace, const char* name, PyObject* arguments, void* out,
                         PyGILState_STATE state) {
  PyObject* value;
  loomc_status status = perform(workspace, name, arguments, &value);
  if (status == LOOMC_OK) {
    void* made = wrap(value);
    memcpy(out, &made, sizeof(made));
    if (made == NULL) status = LOOMC_OUT_OF_MEMORY;
  }
  PyGILState_Release(state);
  return status;
}

static PyObject* value_of(const void* pointer) { return pointer == NULL ? Py_None : ((const object*)pointer)->value; }

/* New references to lists; NULL with a Python error set when that fails. */
static PyObject* objects(void* const* pointers, size_t count) {
  PyObject* list = PyList_New((Py_ssize_t)count);
  for (size_t i = 0; list != NULL && i < count; ++i) {
    if (pointers[i] == NULL) {
      Py_CLEAR(list);
      PyErr_SetString(PyExc_ValueError, "an object of a list is NULL");
      break;
    }
    PyObject* value = value_of(pointers[i]);
    Py_INCREF(value);
    PyList_SET_ITEM(list, (Py_ssize_t)i, value);
  }
  return list;
}

static PyObject* strings(const char* const* texts, size_t count) {
  PyObject* list = PyList_New((Py_ssize_t)count);
  for (size_t i = 0; list != NULL && i < count; ++i) {
    PyObject* value = PyUnicode_FromString(texts[i]);
    if (value == NULL) {
      Py_CLEAR(list);
      break;
    }
    PyList_SET_ITEM(list, (Py_ssize_t)i, value);
  }
  return list;
}

static bool all_given(const void* const* pointers, size_t count) {
  if (pointers == NULL) return count == 0;
  for (size_t i = 0; i < count; ++i) {
    if (pointers[i] == NULL) return false;
  }
  return true;
}

#define GIVEN(pointers, count) all_given((const void* const*)(pointers), (count))
#define CLEARED(out) ((out) != NULL && ((*(out) = NULL), true))

loomc_status loomc_target_find(loomc_workspace* workspace, const char* name, loomc_target** out_target) {
  ENTER(CLEARED(out_target) && name != NULL);
  return give(workspace, "find_target", Py_BuildValue("(s)", name), out_target, state);
}

loomc_status loomc_module_load(loomc_workspace* workspace, const void* data, size_t size, const char* name,
                               loomc_module** out_module) {
  ENTER(CLEARED(out_module) && name != NULL && (data != NULL || size == 0));
  PyObject* arguments = Py_BuildValue("(y#s)", data == NULL ? "" : data, (Py_ssize_t)size, name);
  return give(workspace, "load", arguments, out_module, state);
}

loomc_status loomc_module_text(loomc_workspace* workspace, loomc_module* module, loomc_bytes** out_text) {
  ENTER(CLEARED(out_text) && module != NULL);
  return give(workspace, "text", Py_BuildValue("(O)", value_of(module)), out_text, state);
}

loomc_status loomc_module_bytecode(loomc_workspace* workspace, loomc_module* module, loomc_bytes** out_bytecode) {
  ENTER(CLEARED(out_bytecode) && module != NULL);
  return give(workspace, "bytecode", Py_BuildValue("(O)", value_of(module)), out_bytecode, state);
}

loomc_status loomc_module_configure(loomc_workspace* workspace, loomc_module* module, const char* json,
                                    loomc_module** out_module) {
  ENTER(CLEARED(out_module) && module != NULL && json != NULL);
  return give(workspace, "configure", Py_BuildValue("(Os)", value_of(module), json), out_module, state);
}

loomc_status loomc_index_create(loomc_workspace* workspace, loomc_module* const* libraries, size_t count,
                                loomc_index** out_index) {
  ENTER(CLEARED(out_index) && GIVEN(libraries, count));
  PyObject* arguments = Py_BuildValue("(N)", objects((void* const*)libraries, count));
  return give(workspace, "freeze", arguments, out_index, state);
}

loomc_status loomc_link(loomc_workspace* workspace, loomc_module* const* modules, size_t module_count,
                        loomc_index* index, const char* const* roots, size_t root_count, loomc_target* target,
                        uint32_t flags, loomc_module** out_module) {
  ENTER(CLEARED(out_module) && GIVEN(modules, module_count) && GIVEN(roots, root_count) && flags < 4);
  PyObject* arguments =
      Py_BuildValue("(NONOI)", objects((void* const*)modules, module_count), value_of(index),
                    strings(roots, root_count), value_of(target), (unsigned int)flags);
  return give(workspace, "link", arguments, out_module, state);
}

loomc_status loomc_specialize(loomc_workspace* workspace, loomc_module* module, loomc_target* target,
                              const char* const* roots, size_t root_count, loomc_module** out_module) {
  ENTER(CLEARED(out_module) && module != NULL && GIVEN(roots, root_count));
  PyObject* arguments = Py_BuildValue("(OON)", value_of(module), value_of(target), strings(roots, root_count));
  return give(workspace, "specialize", arguments, out_module, state);
}

loomc_status loomc_compile(loomc_workspace* workspace, loomc_module* module, loomc_target* target, const char* format,
                           const char* const* roots, size_t root_count, loomc_compilation** out_compilation) {
  ENTER(CLEARED(out_compilation) && module != NULL && GIVEN(roots, root_count));
  PyObject* arguments =
      Py_BuildValue("(OOzN)", value_of(module), value_of(target), format, strings(roots, root_count));
  return give(workspace, "compile", arguments, out_compilation, state);
}

loomc_status loomc_compilation_artifact_count(loomc_workspace* workspace, loomc_compilation* compilation,
                                              size_t* out_count) {
  if (out_count != NULL) *out_count = 0;
  ENTER(out_count != NULL && compilation != NULL);
  PyObject* value;
  loomc_status status = perform(workspace, "count_artifacts", Py_BuildValue("(O)", value_of(compilation)), &value);
  if (status == LOOMC_OK) *out_count = PyLong_AsSize_t(value);
  Py_XDECREF(value);
  PyGILState_Release(state);
  return status;
}

loomc_status loomc_compilation_artifact(loomc_workspace* workspace, loomc_compilation* compilation, size_t index,
                                        loomc_bytes** out_name, loomc_bytes** out_data) {
  if (out_name != NULL) *out_name = NULL;
  ENTER(CLEARED(out_data) && compilation != NULL && index <= SIZE_MAX / 2);
  PyObject *value, *name, *data;
  PyObject* arguments = Py_BuildValue("(On)", value_of(compilation), (Py_ssize_t)index);
  loomc_status status = perform(workspace, "artifact", arguments, &value);
  if (status == LOOMC_OK && PyArg_ParseTuple(value, "SS", &name, &data)) {
    Py_INCREF(data);
    *out_data = wrap(data);
    if (*out_data == NULL) status = LOOMC_OUT_OF_MEMORY;
    if (out_name != NULL && status == LOOMC_OK) {
      Py_INCREF(name);
      *out_name = wrap(name);
      if (*out_name == NULL) {
        release(*out_data);
        *out_data = NULL;
        status = LOOMC_OUT_OF_MEMORY;
      }
    }
  }
  Py_XDECREF(value);
  PyGILState_Release(state);
  return status;
}

loomc_status loomc_compilation_report(loomc_workspace* workspace, loomc_compilation* compilation,
                                      loomc_bytes** out_json) {
  ENTER(CLEARED(out_json) && compilation != NULL);
  return give(workspace, "report", Py_BuildValue("(O)", value_of(compilation)), out_json, state);
}

/* -- launch evaluation --------------------------------------------------------------------------------------- */

loomc_status loomc_launch_config_create(loomc_workspace* workspace, loomc_compilation* compilation, const char* kernel,
                                        loomc_launch_config** out_config) {
  ENTER(CLEARED(out_config) && compilation != NULL && kernel != NULL);
  return give(workspace, "launch_config", Py_BuildValue("(Os)", value_of(compilation), kernel), out_config, state);
}

loomc_status loomc_launch_config_load(loomc_workspace* workspace, const void* data, size_t size,
                                      loomc_launch_config** out_config) {
  ENTER(CLEARED(out_config) && (data != NULL || size == 0));
  PyObject* arguments = Py_BuildValue("(y#)", data == NULL ? "" : data, (Py_ssize_t)size);
  return give(workspace, "load_launch_config", arguments, out_config, state);
}

loomc_status loomc_launch_config_bytes(loomc_workspace* workspace, loomc_launch_config* config,
                                       loomc_bytes** out_data) {
  ENTER(CLEARED(out_data) && config != NULL);
  return give(workspace, "launch_config_bytes", Py_BuildValue("(O)", value_of(config)), out_data, state);
}

loomc_status loomc_launch_config_evaluate(loomc_workspace* workspace, loomc_launch_config* config,
                                          const int64_t* workload, size_t count,
                                          loomc_launch_contract* out_contract) {
  if (out_contract != NULL) memset(out_contract, 0, sizeof(*out_contract));
  ENTER(out_contract != NULL && config != NULL && (workload != NULL || count == 0));
  PyObject* list = PyList_New((Py_ssize_t)count);
  for (size_t i = 0; list != NULL && i < count; ++i) {
    PyObject* number = PyLong_FromLongLong(workload[i]);
    if (number == NULL) {
      Py_CLEAR(list);
    } else {
      PyList_SET_ITEM(list, (Py_ssize_t)i, number);
    }
  }
  PyObject* value;
  loomc_status status = perform(workspace, "evaluate_launch", Py_BuildValue("(ON)", value_of(config), list), &value);
  if (status == LOOMC_OK) {
    loomc_launch_contract* c = out_contract;
    unsigned long long storage, dynamic;
    if (!PyArg_ParseTuple(value, "(III)(III)(III)IKK", &c->workgroups[0], &c->workgroups[1], &c->workgroups[2],
                          &c->workgroup_size[0], &c->workgroup_size[1], &c->workgroup_size[2], &c->cluster_size[0],
                          &c->cluster_size[1], &c->cluster_size[2], &c->subgroup_size, &storage, &dynamic)) {
      PyErr_Clear();
      memset(c, 0, sizeof(*c));
      status = LOOMC_INTERNAL;
    } else {
      c->workgroup_storage = storage;
      c->dynamic_workgroup_storage = dynamic;
    }
  }
  Py_XDECREF(value);
  PyGILState_Release(state);
  return status;
}
