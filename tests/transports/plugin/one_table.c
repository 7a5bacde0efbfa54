/* A network plug-in with one of the tables of another: scripts/interop/net_plugins.sh builds it for each version in
 * turn (-DTABLE=ncclNetPlugin_v10), so that the older tables of a plug-in are used, too. ONE_TABLE_OF names the other. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>

#define TEXT_OF(name) #name
#define NAME_OF(name) TEXT_OF(name)

/* Larger than any table. */
void* TABLE[64];

__attribute__((constructor)) static void copy_table(void) {
  void* plugin = dlopen(getenv("ONE_TABLE_OF"), RTLD_NOW | RTLD_LOCAL);
  void* table = plugin == NULL ? NULL : dlsym(plugin, NAME_OF(TABLE));
  Dl_info info;
  const ElfW(Sym)* symbol = NULL;
  if (table == NULL || dladdr1(table, &info, (void**)&symbol, RTLD_DL_SYMENT) == 0 || symbol->st_size > sizeof TABLE)
    abort();
  memcpy(TABLE, table, symbol->st_size);
}
