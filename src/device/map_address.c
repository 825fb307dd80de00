/* Finds the word of a tensor map that holds its address. */
#include "device/map_address.h"

#include <string.h>

/* Each bit of MD_DEV_MAP_BITS is set in one of the first two addresses and clear in the other; the third sets all. */
static const uint64_t probe[] = {0x555555555550, 0x2aaaaaaaaaa0, MD_DEV_MAP_BITS};

static bool is_replaced(const md_kn_word map[MD_KN_MAP_WORDS], int32_t word, uint64_t address, md_dev_map_mover move)
{
    _Alignas(64) md_kn_word theirs[MD_KN_MAP_WORDS];
    md_kn_word ours[MD_KN_MAP_WORDS];
    memcpy(theirs, map, sizeof theirs);
    memcpy(ours, map, sizeof ours);
    ours[word].i = (int64_t)address;
    return move(theirs, (void *)(uintptr_t)address) == 0 && !memcmp(theirs, ours, sizeof ours);
}

int32_t md_dev_map_find_address(const md_kn_word map[MD_KN_MAP_WORDS], uint64_t address, md_dev_map_mover move)
{
    for (int32_t word = 0; word < MD_KN_MAP_WORDS; word++) {
        if ((uint64_t)map[word].i != address)
            continue;
        size_t i = 0;
        while (i < sizeof probe / sizeof *probe && is_replaced(map, word, probe[i], move))
            i++;
        if (i == sizeof probe / sizeof *probe)
            return word + 1;
    }
    return 0;
}
