/* The state that a block of a scan publishes: its tile's total, then the total up to its end. One word of 16 bytes, so
 * that it is never read half written. */
#ifndef MD_CUDA_NOTES_H
#define MD_CUDA_NOTES_H

#ifndef MD_COUNTED
#define MD_COUNTED 65535 /* tiles whose states are in the stream's counters */
#endif

enum { MD_PARTIAL = 1, MD_COMPLETE = 2 };

struct md_tile_state {
    MD_TOTAL total;
    uint64_t state;
};

/* Precedes the states. */
struct md_head {
    uint64_t epoch;
    unsigned started, done;
};

#if !MD_RECURRENCE /* for totals of two words */
MD_INLINE uint64_t md_bits_of(double v) { return md_u64(v); }
MD_INLINE uint64_t md_bits_of(float v) { return md_u32(v); }
MD_INLINE uint64_t md_bits_of(int64_t v) { return (uint64_t)v; }
MD_INLINE uint64_t md_bits_of(int v) { return (uint32_t)v; }
MD_INLINE void md_from_bits(double &v, uint64_t b) { v = md_f64(b); }
MD_INLINE void md_from_bits(float &v, uint64_t b) { v = md_f32((uint32_t)b); }
MD_INLINE void md_from_bits(int64_t &v, uint64_t b) { v = (int64_t)b; }
MD_INLINE void md_from_bits(int &v, uint64_t b) { v = (int)b; }

MD_INLINE void md_tile_state_store(char *at, MD_TOTAL total, uint64_t state)
{
    asm volatile("{ .reg .b128 w; mov.b128 w, {%1, %2}; st.relaxed.gpu.global.b128 [%0], w; }" ::"l"(at),
                 "l"(md_bits_of(total)), "l"(state)
                 : "memory");
}

MD_INLINE md_tile_state md_tile_state_load(const char *at)
{
    md_tile_state n;
    uint64_t bits;
    asm volatile("{ .reg .b128 w; ld.relaxed.gpu.global.b128 w, [%2]; mov.b128 {%0, %1}, w; }"
                 : "=l"(bits), "=l"(n.state)
                 : "l"(at)
                 : "memory");
    md_from_bits(n.total, bits);
    return n;
}

#endif

/* The place of this launch's states, and the number that they count from. The stream's counters hold the states of
 * MD_COUNTED tiles; the number of earlier launches tells old states from new ones. More tiles have states in the
 * workspace, which an extra launch clears. */
struct md_board {
    md_head *head;
    char *states;
    uint64_t base;
};

MD_INLINE md_board md_board_of(const md_params *p, int64_t tiles)
{
    const bool is_counted = tiles <= MD_COUNTED;
    md_head *head = (md_head *)(is_counted ? p->counters0 : p->work0);
    return md_board{head, (char *)(head + 1), is_counted ? *(volatile uint64_t *)&head->epoch * 4 : 0};
}

/* The last block that calls this resets the head for the next launch. */
MD_INLINE void md_leave(md_head *head, int64_t tiles)
{
    if (threadIdx.x == 0 && atomicAdd(&head->done, 1u) + 1 == tiles) {
        head->started = 0;
        head->done = 0;
        head->epoch++;
    }
}

#endif
