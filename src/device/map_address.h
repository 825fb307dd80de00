/* Finds and replaces the address in a tensor map. The format is not documented, so a map is changed by a store only
 * after a test has shown that this equals what the driver does. */
#ifndef MD_DEVICE_MAP_ADDRESS_H
#define MD_DEVICE_MAP_ADDRESS_H

#include "kernel/kernel.h"

/* cuTensorMapReplaceAddress of the driver: 0 on success. `map` is 64-byte aligned. */
typedef int (*md_dev_map_mover)(void *map, void *address);

/* Bits of addresses that may be stored: 16-byte aligned, in the user's half of the address space. The driver reports
 * what is wrong with other addresses. */
#define MD_DEV_MAP_BITS ((uint64_t)0x7ffffffffff0)

/** The number of the word that holds the map's address, from 1. It is tested: for addresses in which each bit of
 * MD_DEV_MAP_BITS is set once and clear once, the driver's result equals the map with this word replaced. 0: no such
 * word, so the driver must change the map. `address`: the map's address now. */
int32_t md_dev_map_find_address(const md_kn_word map[MD_KN_MAP_WORDS], uint64_t address, md_dev_map_mover move);

/** Changes a map's address by a store. False if that is not known to be right. `at`: found for this map. */
static inline bool md_dev_map_store(md_kn_word map[MD_KN_MAP_WORDS], int32_t at, uint64_t address)
{
    if (__builtin_expect(at <= 0 || (address & ~MD_DEV_MAP_BITS), 0))
        return false;
    map[at - 1].i = (int64_t)address;
    return true;
}

#endif
