/* Arrays that grow one element at a time. */
#include "base/grow.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST = 16 };

bool md_grow(void *array, size_t n, size_t size)
{
    void *old, *grown = NULL;
    if (n > 0 && (n < FIRST || (n & (n - 1)) != 0))
        return true;
    const size_t room = n > 0 ? 2 * n : FIRST;
    memcpy(&old, array, sizeof old);
    if (n <= SIZE_MAX / 4 && room <= SIZE_MAX / 2 / size)
        grown = realloc(old, room * size);
    if (grown)
        memcpy(array, &grown, sizeof grown);
    return grown != NULL;
}
