// Says which library its call goes to: the folder's name, and the version. With an argument: that
// of the library of this path.
#include <dlfcn.h>
#include <stdio.h>

#include "adapters/nccl/abi.h"

int main(int argc, char **argv) {
  int (*ask)(int *) = ncclGetVersion;
  int version = 0;
  Dl_info info;
  if (argc > 1) {
    void *library = dlopen(argv[1], RTLD_NOW);
    *(void **)&ask = library ? dlsym(library, "ncclGetVersion") : NULL;
  }
  if (!ask || ask(&version) || !dladdr(*(void **)&ask, &info))
    return 1;
  printf("%s %d\n", info.dli_fname, version);
  return 0;
}
