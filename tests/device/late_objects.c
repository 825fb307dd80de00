/* A library as cuBLASLt is one: at its first use it makes what exit() destroys, and no later use may come. */
#include <stdatomic.h>
#include <stdlib.h>

void late_use(void);

static _Atomic int is_made, is_gone;

static void destroy(void)
{
    atomic_store(&is_gone, 1);
}

void late_use(void)
{
    if (!atomic_exchange(&is_made, 1))
        (void)atexit(destroy);
    if (atomic_load(&is_gone))
        abort();
}
