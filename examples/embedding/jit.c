/* A program that compiles kernels itself: from source without a target to the launch of a kernel and to native code in
 * memory. See README.md for how to build it.
 *
 *   jit amdgpu:gfx1100 1009      compiles the kernel and says how to launch it for 1009 elements
 */
#define _DEFAULT_SOURCE
#include <elf.h>
#include <inttypes.h>
#include <loomc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static const char LIBRARY[] =
    "func.def public pure inline @blend(%x: f32, %y: f32, %t: f32) -> (f32) {\n"
    "  %d = scalar.subf %y, %x : f32\n"
    "  %s = scalar.mulf %d, %t : f32\n"
    "  %r = scalar.addf %x, %s : f32\n"
    "  func.return %r : f32\n"
    "}\n";

static const char PROGRAM[] =
    "func.decl pure @blend(%x: f32, %y: f32, %t: f32) -> (f32)\n"
    "config.decl @blend.width : %w: index where [range(%w, 32, 1024)]\n"
    "\n"
    "func.def public @blend_one(%x: f32, %y: f32, %t: f32) -> (f32) {\n"
    "  %r = func.call pure @blend(%x, %y, %t) : (f32, f32, f32) -> (f32)\n"
    "  func.return %r : f32\n"
    "}\n"
    "\n"
    "kernel.def export(\"blend\") @blend_all(%n: index) {\n"
    "  %one = index.constant 1 : index\n"
    "  %width = config.get @blend.width : index\n"
    "  %pad = index.sub %width, %one : index\n"
    "  %padded = index.add %n, %pad : index\n"
    "  %groups = index.div %padded, %width : index\n"
    "  kernel.launch.config workgroups(%groups, %one, %one) workgroup_size(%width, %one, %one) : index\n"
    "} launch(%n: index, %x: buffer, %y: buffer, %t: f32) {\n"
    "  %base = index.constant 0 : offset\n"
    "  %i = kernel.workitem.dispatch.id<x> : index\n"
    "  %xs = buffer.view %x[%base] : buffer -> view<[%n]xf32>\n"
    "  %ys = buffer.view %y[%base] : buffer -> view<[%n]xf32>\n"
    "  %inside = index.cmp ult, %i, %n : index\n"
    "  scf.if %inside {\n"
    "    %a = view.load %xs[%i] : view<[%n]xf32> -> f32\n"
    "    %b = view.load %ys[%i] : view<[%n]xf32> -> f32\n"
    "    %r = func.call pure @blend(%a, %b, %t) : (f32, f32, f32) -> (f32)\n"
    "    view.store %r, %ys[%i] : f32, view<[%n]xf32>\n"
    "  }\n"
    "  kernel.return\n"
    "}\n";

/* Ends the program with the diagnostics of a call that failed. */
static void require(loomc_status status, loomc_workspace* workspace, const char* what) {
  if (status == LOOMC_OK) return;
  loomc_bytes* diagnostics = loomc_workspace_diagnostics(workspace);
  fprintf(stderr, "%s: status %d\n%s", what, (int)status, loomc_bytes_data(diagnostics));
  loomc_bytes_release(diagnostics);
  exit(1);
}

/* The closed program: the library answers the declaration, and the width of workgroups is chosen here. */
static loomc_module* close_program(loomc_workspace* workspace) {
  loomc_module *library, *source, *configured, *closed;
  loomc_index* index;
  require(loomc_module_load(workspace, LIBRARY, strlen(LIBRARY), "library", &library), workspace, "library");
  require(loomc_module_load(workspace, PROGRAM, strlen(PROGRAM), "program", &source), workspace, "program");
  require(loomc_module_configure(workspace, source, "{\"blend.width\": 256}", &configured), workspace, "configure");
  require(loomc_index_create(workspace, &library, 1, &index), workspace, "index");
  const char* roots[] = {"@blend_all", "@blend_one"};
  require(loomc_link(workspace, &configured, 1, index, roots, 2, NULL, 0, &closed), workspace, "link");
  loomc_index_release(index);
  loomc_module_release(configured);
  loomc_module_release(source);
  loomc_module_release(library);
  return closed;
}

/* Compiles the kernel for a target and prints what a host needs to launch it. */
static void launch(loomc_workspace* workspace, loomc_module* closed, const char* name, int64_t count) {
  loomc_target* target;
  loomc_compilation* compilation;
  loomc_launch_config* config;
  loomc_launch_contract contract;
  loomc_bytes *artifact_name, *code;
  const char* roots[] = {"blend_all"};
  require(loomc_target_find(workspace, name, &target), workspace, "target");
  require(loomc_compile(workspace, closed, target, NULL, roots, 1, &compilation), workspace, "compile");
  require(loomc_compilation_artifact(workspace, compilation, 0, &artifact_name, &code), workspace, "artifact");
  require(loomc_launch_config_create(workspace, compilation, "blend_all", &config), workspace, "launch configuration");
  require(loomc_launch_config_evaluate(workspace, config, &count, 1, &contract), workspace, "evaluate");
  printf("%s: %" PRIu32 " workgroups of %" PRIu32 ", %" PRIu64 " bytes of workgroup storage\n",
         loomc_bytes_data(artifact_name), contract.workgroups[0], contract.workgroup_size[0],
         contract.workgroup_storage);
  loomc_launch_config_release(config);
  loomc_bytes_release(code);
  loomc_bytes_release(artifact_name);
  loomc_compilation_release(compilation);
  loomc_target_release(target);
}

#if defined(__x86_64__)
/* The code of a relocatable object in executable memory. The object must have no relocations. */
static void* executable(const char* object, const char* symbol) {
  const Elf64_Ehdr* file = (const Elf64_Ehdr*)object;
  const Elf64_Shdr* sections = (const Elf64_Shdr*)(object + file->e_shoff);
  for (int i = 0; i < file->e_shnum; ++i) {
    if (sections[i].sh_type != SHT_SYMTAB) continue;
    const Elf64_Sym* symbols = (const Elf64_Sym*)(object + sections[i].sh_offset);
    const char* names = object + sections[sections[i].sh_link].sh_offset;
    for (size_t at = 0; at < sections[i].sh_size / sizeof(Elf64_Sym); ++at) {
      if (strcmp(names + symbols[at].st_name, symbol) != 0) continue;
      const Elf64_Shdr* text = &sections[symbols[at].st_shndx];
      char* memory = mmap(NULL, text->sh_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      if (memory == MAP_FAILED) return NULL;
      memcpy(memory, object + text->sh_offset, text->sh_size);
      return mprotect(memory, text->sh_size, PROT_READ | PROT_EXEC) == 0 ? memory + symbols[at].st_value : NULL;
    }
  }
  return NULL;
}

/* Compiles the function for this machine and calls it. */
static void call(loomc_workspace* workspace, loomc_module* closed) {
  loomc_target* target;
  loomc_compilation* compilation;
  loomc_bytes* object;
  const char* roots[] = {"blend_one"};
  require(loomc_target_find(workspace, "x86:simd128", &target), workspace, "target");
  require(loomc_compile(workspace, closed, target, NULL, roots, 1, &compilation), workspace, "compile");
  require(loomc_compilation_artifact(workspace, compilation, 0, NULL, &object), workspace, "artifact");
  void* code = executable(loomc_bytes_data(object), "blend_one");
  if (code == NULL) {
    fprintf(stderr, "the object has no code for blend_one\n");
    exit(1);
  }
  float (*blend)(float, float, float);
  memcpy(&blend, &code, sizeof(code));
  printf("blend(2, 10, 0.25) = %g\n", (double)blend(2.0f, 10.0f, 0.25f));
  loomc_bytes_release(object);
  loomc_compilation_release(compilation);
  loomc_target_release(target);
}
#endif

int main(int argc, char** argv) {
  if (argc != 3) {
    fprintf(stderr, "usage: jit TARGET COUNT\n");
    return 2;
  }
  loomc_context* context;
  loomc_workspace* workspace;
  loomc_bytes* diagnostics;
  if (loomc_context_create(NULL, &context, &diagnostics) != LOOMC_OK) {
    fprintf(stderr, "Loom is not available: %s\n", diagnostics != NULL ? loomc_bytes_data(diagnostics) : "no Python");
    loomc_bytes_release(diagnostics);
    return 1;
  }
  if (loomc_workspace_create(context, &workspace) != LOOMC_OK) return 1;
  loomc_module* closed = close_program(workspace);
  launch(workspace, closed, argv[1], strtoll(argv[2], NULL, 10));
#if defined(__x86_64__)
  call(workspace, closed);
#endif
  loomc_module_release(closed);
  loomc_workspace_release(workspace);
  loomc_context_release(context);
  return 0;
}
