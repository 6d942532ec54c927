/* loomc: the C interface of Loom.
 *
 * It offers the boundaries of the compiler in memory, without temporary files: source and bytecode loading, linking
 * over an explicit universe of libraries, configuration and target specialization, compilation and emission, and
 * evaluation of compiled launch configurations. The embedding decides when to compile, where to cache, how to load
 * code and how to issue work.
 *
 * This header is the authority on ownership, lifetime, threading and failure.
 *
 * Objects. A function that gives out an object through a parameter `out_...` gives the caller one reference to it;
 * every `loomc_<type>_release` gives one back and accepts NULL. `loomc_<type>_retain` takes another one. Contexts,
 * targets, modules, indices, compilations, launch configurations, byte strings and diagnostics never change once they
 * have been made. They keep alive what they need, so they may be released in any order.
 *
 * Threads. Immutable objects may be shared between threads, and retained and released in any of them. A workspace is
 * the mutable state of one worker: calls with one workspace must not overlap. Calls with different workspaces may
 * run at the same time; the implementation serializes parts of them.
 *
 * Failure. Every function that can fail returns a status. Unless it is LOOMC_OK, all its `out_...` parameters are set
 * to NULL or zero, and the workspace holds the diagnostics of the failure until its next call. Nothing is printed, and
 * no function ends the process or changes signal handlers. Text is UTF-8. Names of symbols may begin with '@'.
 */
#ifndef LOOMC_H_
#define LOOMC_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define LOOMC_API __attribute__((visibility("default")))
#else
#define LOOMC_API
#endif

/* The revision of this interface. It grows when a function is added and never otherwise. */
#define LOOMC_REVISION 1

typedef enum loomc_status {
  LOOMC_OK = 0,
  /* The input is wrong; the diagnostics say where and how. */
  LOOMC_DIAGNOSED = 1,
  /* A parameter is NULL, out of range or not UTF-8 where this header does not allow it. */
  LOOMC_INVALID_ARGUMENT = 2,
  LOOMC_OUT_OF_MEMORY = 3,
  /* The environment has no usable Loom, or two plugins clash; the diagnostics say which. */
  LOOMC_UNAVAILABLE = 4,
  /* A fault of Loom itself; the diagnostics hold its description. */
  LOOMC_INTERNAL = 5
} loomc_status;

typedef struct loomc_context loomc_context;             /* an environment: Loom and its installed targets */
typedef struct loomc_workspace loomc_workspace;         /* the mutable state of one worker */
typedef struct loomc_target loomc_target;               /* a target profile */
typedef struct loomc_module loomc_module;               /* a valid module */
typedef struct loomc_index loomc_index;                 /* a frozen universe of libraries */
typedef struct loomc_compilation loomc_compilation;     /* the artifacts of one compilation and its report */
typedef struct loomc_launch_config loomc_launch_config; /* the launch configuration of one compiled kernel */
typedef struct loomc_bytes loomc_bytes;                 /* a byte string */

/* -- environment -------------------------------------------------------------------------------------------- */

/* Makes a context. `python` is the path of the Python executable in whose environment Loom is installed; NULL means
 * the one that this library was built with. The first context of a process decides; later ones ignore it. A process
 * that is a Python process already uses that. On failure there is no workspace to ask, so the diagnostics are given
 * out as well unless `out_diagnostics` is NULL. */
LOOMC_API loomc_status loomc_context_create(const char* python, loomc_context** out_context,
                                            loomc_bytes** out_diagnostics);
LOOMC_API void loomc_context_retain(loomc_context* context);
LOOMC_API void loomc_context_release(loomc_context* context);

/* Makes a workspace, which keeps its context alive. A workspace has one owner. */
LOOMC_API loomc_status loomc_workspace_create(loomc_context* context, loomc_workspace** out_workspace);
LOOMC_API void loomc_workspace_release(loomc_workspace* workspace);

/* The diagnostics of the last call with the workspace: one JSON object in each line, in the form that the commands
 * print. They include warnings of calls that succeeded. Never NULL but when memory is exhausted. */
LOOMC_API loomc_bytes* loomc_workspace_diagnostics(loomc_workspace* workspace);

/* Finds a target by `family:selector`, such as "amdgpu:gfx1100". */
LOOMC_API loomc_status loomc_target_find(loomc_workspace* workspace, const char* name, loomc_target** out_target);
LOOMC_API void loomc_target_retain(loomc_target* target);
LOOMC_API void loomc_target_release(loomc_target* target);

/* -- modules ------------------------------------------------------------------------------------------------ */

/* Reads and verifies a module from text or bytecode (told apart by the first bytes). `name` stands in diagnostics for
 * a file name. The data is not kept. */
LOOMC_API loomc_status loomc_module_load(loomc_workspace* workspace, const void* data, size_t size, const char* name,
                                         loomc_module** out_module);
LOOMC_API void loomc_module_retain(loomc_module* module);
LOOMC_API void loomc_module_release(loomc_module* module);

/* The canonical text of a module, and its binary form. */
LOOMC_API loomc_status loomc_module_text(loomc_workspace* workspace, loomc_module* module, loomc_bytes** out_text);
LOOMC_API loomc_status loomc_module_bytecode(loomc_workspace* workspace, loomc_module* module,
                                             loomc_bytes** out_bytecode);

/* Binds configuration keys by the text of a JSON object (comments are allowed) from keys to values, in a copy. */
LOOMC_API loomc_status loomc_module_configure(loomc_workspace* workspace, loomc_module* module, const char* json,
                                              loomc_module** out_module);

/* -- linking and specialization ------------------------------------------------------------------------------ */

/* Freezes libraries into an index that any number of links may draw from. The order of libraries never matters. */
LOOMC_API loomc_status loomc_index_create(loomc_workspace* workspace, loomc_module* const* libraries, size_t count,
                                          loomc_index** out_index);
LOOMC_API void loomc_index_retain(loomc_index* index);
LOOMC_API void loomc_index_release(loomc_index* index);

enum {
  /* Keeps declarations that nothing answers, for a later link. */
  LOOMC_LINK_PARTIAL = 1,
  /* Keeps check cases and benchmarks. */
  LOOMC_LINK_KEEP_CHECKS = 2
};

/* Links modules by roots over an index (NULL: no libraries). Without roots, the public symbols of the modules are the
 * roots. With a target (which may be NULL) its facts rule out providers that cannot be chosen. `flags` is a sum of the
 * constants above. */
LOOMC_API loomc_status loomc_link(loomc_workspace* workspace, loomc_module* const* modules, size_t module_count,
                                  loomc_index* index, const char* const* roots, size_t root_count,
                                  loomc_target* target, uint32_t flags, loomc_module** out_module);

/* Binds target facts and templates, inlines, folds, and drops what the roots do not reach. `target` may be NULL. */
LOOMC_API loomc_status loomc_specialize(loomc_workspace* workspace, loomc_module* module, loomc_target* target,
                                        const char* const* roots, size_t root_count, loomc_module** out_module);

/* -- compilation --------------------------------------------------------------------------------------------- */

/* Compiles roots of a linked module. Without roots all that the format takes is compiled. `format` is NULL for the
 * target's own format; `target` may be NULL for formats that need none, such as "loom-command". */
LOOMC_API loomc_status loomc_compile(loomc_workspace* workspace, loomc_module* module, loomc_target* target,
                                     const char* format, const char* const* roots, size_t root_count,
                                     loomc_compilation** out_compilation);
LOOMC_API void loomc_compilation_retain(loomc_compilation* compilation);
LOOMC_API void loomc_compilation_release(loomc_compilation* compilation);

/* Artifact 0 is the primary one; `out_name` (may be NULL) receives its name and `out_data` its contents.
 * LOOMC_INVALID_ARGUMENT for an index that is not below the count. */
LOOMC_API loomc_status loomc_compilation_artifact_count(loomc_workspace* workspace, loomc_compilation* compilation,
                                                        size_t* out_count);
LOOMC_API loomc_status loomc_compilation_artifact(loomc_workspace* workspace, loomc_compilation* compilation,
                                                  size_t index, loomc_bytes** out_name, loomc_bytes** out_data);

/* The report data of the compilation as a JSON object. */
LOOMC_API loomc_status loomc_compilation_report(loomc_workspace* workspace, loomc_compilation* compilation,
                                                loomc_bytes** out_json);

/* -- launch evaluation --------------------------------------------------------------------------------------- */

typedef struct loomc_launch_contract {
  uint32_t workgroups[3];
  uint32_t workgroup_size[3];
  uint32_t cluster_size[3];            /* workgroups of a cluster; all 0 for a kernel without clusters */
  uint32_t subgroup_size;              /* 0 for a target without subgroups */
  uint64_t workgroup_storage;          /* bytes that one workgroup takes in all */
  uint64_t dynamic_workgroup_storage;  /* the part of it for which the launch has to ask */
} loomc_launch_contract;

/* The launch configuration of a kernel of a compilation; it does not keep the compilation alive. */
LOOMC_API loomc_status loomc_launch_config_create(loomc_workspace* workspace, loomc_compilation* compilation,
                                                  const char* kernel, loomc_launch_config** out_config);
/* Reads a configuration that loomc_launch_config_bytes wrote. The data is not kept. */
LOOMC_API loomc_status loomc_launch_config_load(loomc_workspace* workspace, const void* data, size_t size,
                                                loomc_launch_config** out_config);
LOOMC_API loomc_status loomc_launch_config_bytes(loomc_workspace* workspace, loomc_launch_config* config,
                                                 loomc_bytes** out_data);
/* How to launch the kernel for workload values, which are given in the order of the kernel's workload parameters. */
LOOMC_API loomc_status loomc_launch_config_evaluate(loomc_workspace* workspace, loomc_launch_config* config,
                                                    const int64_t* workload, size_t count,
                                                    loomc_launch_contract* out_contract);
LOOMC_API void loomc_launch_config_retain(loomc_launch_config* config);
LOOMC_API void loomc_launch_config_release(loomc_launch_config* config);

/* -- byte strings -------------------------------------------------------------------------------------------- */

/* The contents live as long as a reference to the byte string. A 0 follows the last byte and does not count. */
LOOMC_API const char* loomc_bytes_data(const loomc_bytes* bytes);
LOOMC_API size_t loomc_bytes_size(const loomc_bytes* bytes);
LOOMC_API void loomc_bytes_retain(loomc_bytes* bytes);
LOOMC_API void loomc_bytes_release(loomc_bytes* bytes);

#ifdef __cplusplus
}
#endif

#endif /* LOOMC_H_ */
