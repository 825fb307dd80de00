/* Where in a tensor map its address stands. The format is the driver's own and not documented, so nothing is assumed
 * of it: a map is shown to be moved by one store, or the driver moves it. */
#ifndef MD_DEVICE_MAP_ADDRESS_H
#define MD_DEVICE_MAP_ADDRESS_H

#include "kernel/kernel.h"

/* The driver's cuTensorMapReplaceAddress: 0 where it did it. `map` on a boundary of 64 bytes. */
typedef int (*md_dev_map_mover)(void *map, void *address);

/* What an address may be that is stored: a boundary of 16 bytes within what a user's half of the address space has;
 * the driver says what is wrong with others. */
#define MD_DEV_MAP_BITS ((uint64_t)0x7ffffffffff0)

/** The word of a map that is its address, counted from 1, where that is so beyond doubt: for addresses that have each
 * of MD_DEV_MAP_BITS set once and clear once, what the driver makes of the map is the map with this word replaced,
 * byte for byte. 0: the driver must be asked each time. `address`: where the map points. */
int32_t md_dev_map_find_address(const md_kn_word map[MD_KN_MAP_WORDS], uint64_t address, md_dev_map_mover move);

/** Makes a map point to another address by a store; false where that is not known to be right. `at`: what was found
 * for this very map. */
static inline bool md_dev_map_store(md_kn_word map[MD_KN_MAP_WORDS], int32_t at, uint64_t address)
{
    if (__builtin_expect(at <= 0 || (address & ~MD_DEV_MAP_BITS), 0))
        return false;
    map[at - 1].i = (int64_t)address;
    return true;
}

#endif
