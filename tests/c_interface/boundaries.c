/* What loomc.h promises, shown call by call. Ends with the line "ok", or at the first promise that is not kept. */
#include <loomc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPECT(condition) \
  do { \
    if (!(condition)) { \
      fprintf(stderr, "%s:%d: not so: %s\n%s", __FILE__, __LINE__, #condition, told()); \
      exit(1); \
    } \
  } while (0)

static loomc_context* context;
static loomc_workspace* workspace;

static const char* told(void) {
  loomc_bytes* bytes = workspace == NULL ? NULL : loomc_workspace_diagnostics(workspace);
  return bytes == NULL ? "" : loomc_bytes_data(bytes);
}

static const char TEXT[] =
    "func.def public pure @twice(%x: i32) -> (i32) {\n"
    "  %r = scalar.addi %x, %x : i32\n"
    "  func.return %r : i32\n"
    "}\n";
static const char USER[] =
    "func.decl pure @twice(%x: i32) -> (i32)\n"
    "\n"
    "func.def public @four(%x: i32) -> (i32) {\n"
    "  %y = func.call pure @twice(%x) : (i32) -> (i32)\n"
    "  %r = func.call pure @twice(%y) : (i32) -> (i32)\n"
    "  func.return %r : i32\n"
    "}\n";
static const char KERNEL[] =
    "config.decl @w : %w: index where [range(%w, 1, 512)]\n"
    "\n"
    "kernel.def export(\"k\") @k(%n: index, %m: index) {\n"
    "  %two = index.constant 2 : index\n"
    "  %four = index.constant 4 : index\n"
    "  %w = config.get @w : index\n"
    "  %x = index.mul %n, %two : index\n"
    "  %y = index.mul %m, %four : index\n"
    "  kernel.launch.config workgroups(%x, %y, %two) workgroup_size(%w, %two, %two)"
    " cluster_size(%two, %four, %two) : index\n"
    "} launch(%out: buffer) {\n"
    "  %at = index.constant 0 : offset\n"
    "  %bytes = index.constant 48 : offset\n"
    "  %s = buffer.alloca<workgroup> align(16) %bytes : buffer\n"
    "  %v = buffer.view %s[%at] : buffer -> view<12xi32>\n"
    "  %o = buffer.view %out[%at] : buffer -> view<1xi32>\n"
    "  %i = kernel.workitem.id<x> : index\n"
    "  %none = index.constant 0 : index\n"
    "  %first = index.cmp eq, %i, %none : index\n"
    "  scf.if %first {\n"
    "    %c = scalar.constant 3 : i32\n"
    "    view.store %c, %v[5] : i32, view<12xi32>\n"
    "    %r = view.load %v[5] : view<12xi32> -> i32\n"
    "    view.store %r, %o[0] : i32, view<1xi32>\n"
    "  }\n"
    "  kernel.return\n"
    "}\n";

static loomc_module* load(const char* text, const char* name) {
  loomc_module* module;
  EXPECT(loomc_module_load(workspace, text, strlen(text), name, &module) == LOOMC_OK);
  return module;
}

static void arguments_are_looked_at(void) {
  loomc_module* module = (loomc_module*)&module;
  loomc_bytes* bytes;
  EXPECT(loomc_module_load(workspace, NULL, 3, "x", &module) == LOOMC_INVALID_ARGUMENT);
  EXPECT(module == NULL);
  EXPECT(loomc_module_load(workspace, TEXT, 3, NULL, &module) == LOOMC_INVALID_ARGUMENT);
  EXPECT(loomc_module_load(NULL, TEXT, 3, "x", &module) == LOOMC_INVALID_ARGUMENT);
  EXPECT(loomc_module_load(workspace, TEXT, 3, "x", NULL) == LOOMC_INVALID_ARGUMENT);
  EXPECT(loomc_module_load(workspace, TEXT, 3, "\xff\xfe", &module) == LOOMC_INVALID_ARGUMENT);
  EXPECT(loomc_module_text(workspace, NULL, &bytes) == LOOMC_INVALID_ARGUMENT);
  EXPECT(loomc_link(workspace, &module, 1, NULL, NULL, 0, NULL, 0, &module) == LOOMC_INVALID_ARGUMENT);
  EXPECT(loomc_context_create(NULL, NULL, NULL) == LOOMC_INVALID_ARGUMENT);
  EXPECT(loomc_bytes_data(NULL) == NULL && loomc_bytes_size(NULL) == 0);
  loomc_module_release(NULL);
  loomc_bytes_retain(NULL);
}

static void failures_are_told_in_the_workspace(void) {
  loomc_module* module;
  EXPECT(loomc_module_load(workspace, "func.def @f() {\n  func.retrun\n}\n", 31, "bad.loom", &module) == LOOMC_DIAGNOSED);
  EXPECT(module == NULL);
  EXPECT(strstr(told(), "\"filename\": \"bad.loom\"") != NULL);
  EXPECT(strstr(told(), "\"start_line\": 2") != NULL);
  EXPECT(strchr(told(), '\n') == told() + strlen(told()) - 1);
  EXPECT(loomc_module_load(workspace, "\xff", 1, "bad", &module) == LOOMC_DIAGNOSED);
  EXPECT(loomc_module_load(workspace, "LOOM\x10" "broken", 11, "bad", &module) == LOOMC_DIAGNOSED);
  loomc_target* target;
  EXPECT(loomc_target_find(workspace, "x86:simd129", &target) == LOOMC_DIAGNOSED);
  EXPECT(target == NULL);
  EXPECT(strstr(told(), "x86:simd128") != NULL);
  loomc_module_release(load("", "empty"));
  EXPECT(told()[0] == 0);
}

static void modules_read_print_and_link(void) {
  loomc_module *library = load(TEXT, "library"), *user = load(USER, "user"), *again, *linked;
  loomc_bytes *text, *bytecode;
  EXPECT(loomc_module_bytecode(workspace, library, &bytecode) == LOOMC_OK);
  EXPECT(loomc_module_load(workspace, loomc_bytes_data(bytecode), loomc_bytes_size(bytecode), "b", &again) == LOOMC_OK);
  EXPECT(loomc_module_text(workspace, again, &text) == LOOMC_OK);
  EXPECT(loomc_bytes_size(text) == strlen(TEXT) && strcmp(loomc_bytes_data(text), TEXT) == 0);
  loomc_bytes_release(text);
  loomc_index* index;
  EXPECT(loomc_index_create(workspace, &again, 1, &index) == LOOMC_OK);
  /* The index keeps what it needs. */
  loomc_module_release(again);
  loomc_bytes_release(bytecode);
  const char* roots[] = {"@four"};
  EXPECT(loomc_link(workspace, &user, 1, NULL, roots, 1, NULL, 0, &linked) == LOOMC_DIAGNOSED);
  EXPECT(strstr(told(), "@twice") != NULL);
  EXPECT(loomc_link(workspace, &user, 1, NULL, roots, 1, NULL, LOOMC_LINK_PARTIAL, &linked) == LOOMC_OK);
  loomc_module_release(linked);
  EXPECT(loomc_link(workspace, &user, 1, index, roots, 1, NULL, 0, &linked) == LOOMC_OK);
  loomc_module_release(user);
  loomc_index_release(index);
  EXPECT(loomc_module_text(workspace, linked, &text) == LOOMC_OK);
  EXPECT(strstr(loomc_bytes_data(text), "func.def pure @twice") != NULL);
  loomc_bytes_release(text);
  loomc_module* specialized;
  EXPECT(loomc_specialize(workspace, linked, NULL, roots, 1, &specialized) == LOOMC_OK);
  loomc_module_release(specialized);
  const char* missing[] = {"five"};
  EXPECT(loomc_specialize(workspace, linked, NULL, missing, 1, &specialized) == LOOMC_DIAGNOSED);
  loomc_module_release(linked);
  loomc_module_release(library);
}

static void kernels_compile_and_say_how_to_launch_them(void) {
  loomc_module *kernel = load(KERNEL, "kernel"), *configured;
  loomc_target* target;
  loomc_compilation* compilation;
  loomc_launch_config *config, *again;
  loomc_launch_contract contract, same;
  loomc_bytes *name, *data, *report;
  size_t count;
  EXPECT(loomc_module_configure(workspace, kernel, "{\"w\": }", &configured) == LOOMC_DIAGNOSED);
  EXPECT(loomc_module_configure(workspace, kernel, "{\"w\": 513}", &configured) == LOOMC_DIAGNOSED);
  EXPECT(loomc_module_configure(workspace, kernel, "{\"w\": 64 /* lanes */}", &configured) == LOOMC_OK);
  EXPECT(loomc_target_find(workspace, "amdgpu:gfx1100", &target) == LOOMC_OK);
  EXPECT(loomc_compile(workspace, configured, NULL, NULL, NULL, 0, &compilation) == LOOMC_DIAGNOSED);
  EXPECT(loomc_compile(workspace, configured, target, "spirv-binary", NULL, 0, &compilation) == LOOMC_DIAGNOSED);
  EXPECT(loomc_compile(workspace, configured, target, NULL, NULL, 0, &compilation) == LOOMC_OK);
  EXPECT(loomc_compilation_artifact_count(workspace, compilation, &count) == LOOMC_OK && count >= 1);
  EXPECT(loomc_compilation_artifact(workspace, compilation, count, &name, &data) == LOOMC_INVALID_ARGUMENT);
  EXPECT(name == NULL && data == NULL);
  EXPECT(loomc_compilation_artifact(workspace, compilation, 0, &name, &data) == LOOMC_OK);
  EXPECT(memcmp(loomc_bytes_data(data), "\x7f""ELF", 4) == 0 && strstr(loomc_bytes_data(name), ".hsaco") != NULL);
  loomc_bytes_release(name);
  loomc_bytes_release(data);
  EXPECT(loomc_compilation_report(workspace, compilation, &report) == LOOMC_OK);
  EXPECT(loomc_bytes_data(report)[0] == '{' && strstr(loomc_bytes_data(report), "\"entries\"") != NULL);
  loomc_bytes_release(report);
  EXPECT(loomc_launch_config_create(workspace, compilation, "nobody", &config) == LOOMC_DIAGNOSED);
  EXPECT(loomc_launch_config_create(workspace, compilation, "@k", &config) == LOOMC_OK);
  loomc_compilation_release(compilation);
  loomc_target_release(target);
  loomc_module_release(configured);
  loomc_module_release(kernel);
  int64_t workload[] = {3, 5};
  EXPECT(loomc_launch_config_evaluate(workspace, config, workload, 2, &contract) == LOOMC_OK);
  EXPECT(contract.workgroups[0] == 6 && contract.workgroups[1] == 20 && contract.workgroups[2] == 2);
  EXPECT(contract.workgroup_size[0] == 64 && contract.workgroup_size[1] == 2 && contract.workgroup_size[2] == 2);
  EXPECT(contract.cluster_size[0] == 2 && contract.cluster_size[1] == 4 && contract.cluster_size[2] == 2);
  EXPECT(contract.subgroup_size == 32);
  EXPECT(contract.workgroup_storage == 48 && contract.dynamic_workgroup_storage == 0);
  EXPECT(loomc_launch_config_bytes(workspace, config, &data) == LOOMC_OK);
  EXPECT(loomc_launch_config_load(workspace, loomc_bytes_data(data), loomc_bytes_size(data), &again) == LOOMC_OK);
  EXPECT(loomc_launch_config_evaluate(workspace, again, workload, 2, &same) == LOOMC_OK);
  EXPECT(memcmp(&contract, &same, sizeof(same)) == 0);
  EXPECT(loomc_launch_config_evaluate(workspace, again, workload, 1, &same) == LOOMC_DIAGNOSED);
  EXPECT(same.workgroups[0] == 0);
  loomc_launch_config_release(again);
  EXPECT(loomc_launch_config_load(workspace, loomc_bytes_data(data), 20, &again) == LOOMC_DIAGNOSED);
  loomc_bytes_release(data);
  loomc_launch_config_release(config);
}

/* One worker: its own workspace, shared modules. */
static void* work(void* shared) {
  loomc_workspace* mine;
  loomc_module* linked;
  const char* roots[] = {"four"};
  for (int round = 0; round < 5; ++round) {
    if (loomc_workspace_create(context, &mine) != LOOMC_OK) return "no workspace";
    if (loomc_link(mine, (loomc_module**)shared, 2, NULL, roots, 1, NULL, 0, &linked) != LOOMC_OK) return "no link";
    loomc_module_retain(linked);
    loomc_module_release(linked);
    loomc_module_release(linked);
    loomc_workspace_release(mine);
  }
  return NULL;
}

static void threads_share_what_never_changes(void) {
  loomc_module* shared[] = {load(TEXT, "library"), load(USER, "user")};
  pthread_t workers[8];
  for (int i = 0; i < 8; ++i) EXPECT(pthread_create(&workers[i], NULL, work, shared) == 0);
  for (int i = 0; i < 8; ++i) {
    void* failure;
    pthread_join(workers[i], &failure);
    if (failure != NULL) fprintf(stderr, "%s\n", (const char*)failure);
    EXPECT(failure == NULL);
  }
  loomc_module_release(shared[0]);
  loomc_module_release(shared[1]);
}

int main(void) {
  loomc_bytes* diagnostics;
  EXPECT(loomc_context_create(NULL, &context, &diagnostics) == LOOMC_OK && diagnostics == NULL);
  loomc_context* second;
  EXPECT(loomc_context_create("/nowhere/python", &second, NULL) == LOOMC_OK);
  loomc_context_release(second);
  EXPECT(loomc_workspace_create(context, &workspace) == LOOMC_OK);
  arguments_are_looked_at();
  failures_are_told_in_the_workspace();
  modules_read_print_and_link();
  kernels_compile_and_say_how_to_launch_them();
  threads_share_what_never_changes();
  loomc_workspace_release(workspace);
  loomc_context_release(context);
  puts("ok");
  return 0;
}
