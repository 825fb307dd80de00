/* Arrays by malloc that grow one element at a time. */
#ifndef MD_BASE_GROW_H
#define MD_BASE_GROW_H

#include <stdbool.h>
#include <stddef.h>

/** Room for one more element of `size` bytes in an array of n: memory doubles whenever n is a power of two from 16 on,
 * so nobody needs to note how much there is. `array`: where the array's address stands, NULL or any where n is 0. False
 * where memory is short; then nothing has changed. */
bool md_grow(void *array, size_t n, size_t size);

#endif
