/* Vectors whose elements lie in one or two windows of MD_VL elements, in any arrangement that is known before. A part
 * of memory.h; empty without MD_PLACED. */
#ifndef MD_HOST_WINDOW_LOADS_H
#define MD_HOST_WINDOW_LOADS_H

#ifdef MD_PLACED
enum { MD_WINDOW_RUN, MD_WINDOW_ONE, MD_WINDOW_TWO, MD_WINDOW_FAR };

/* Where the lanes of a vector lie from the row's place. `first` and `second`: the elements of each window that are
 * read; `index`: the element of both that a lane is. */
typedef struct md_window {
    int64_t at, behind; /* where the windows begin */
    int kind;
    unsigned short first, second; /* bits of elements */
    md_b index;
    md_i from; /* the places themselves */
} md_window;

MD_OUTLINE void md_window_make(md_window *w, md_i from, int n)
{
    int64_t low = from[0], behind = INT64_MAX;
    int is_run = 1;
    *w = (md_window){.kind = MD_WINDOW_FAR, .from = from};
    for (int l = 0; l < n; l++)
        low = from[l] < low ? from[l] : low;
    for (int l = 0; l < n; l++)
        behind = from[l] - low >= MD_VL && from[l] < behind ? from[l] : behind;
    for (int l = 0; l < n; l++) {
        const int is_first = from[l] - low < MD_VL;
        const int64_t i = from[l] - (is_first ? low : behind);
        if (i >= MD_VL)
            return;
        w->index[l] = (int)(is_first ? i : i + MD_VL);
        if (is_first)
            w->first |= 1u << i;
        else
            w->second |= 1u << i;
        is_run = is_run && w->index[l] == l;
    }
    w->at = low;
    w->behind = behind == INT64_MAX ? low : behind;
    w->kind = is_run ? MD_WINDOW_RUN : behind == INT64_MAX ? MD_WINDOW_ONE : MD_WINDOW_TWO;
}

/* MD_PICK_T(a, b, i): lanes of two vectors; without it places are read one by one. */
#if !defined(__clang__) && MD_VL == 16 && defined(__AVX512BW__) && defined(__AVX512VL__)
#define MD_HAS_PICK(E) (sizeof(E) == 4 || sizeof(E) == 2)
#define MD_PICK(a, b, i) __builtin_shuffle(a, b, i)
#define MD_SOME_WORDS(p, bits) (md_b) __builtin_ia32_loaddqusi512_mask((const int *)(p), (md_b){0}, bits)
#define MD_SOME_HALVES(p, bits) (md_w16) __builtin_ia32_loaddquhi256_mask((const short *)(p), (md_v16hi){0}, bits)
#else
#define MD_HAS_PICK(E) 0
#define MD_PICK(a, b, i) (a)
#define MD_SOME_WORDS(p, bits) ((md_b){0})
#define MD_SOME_HALVES(p, bits) ((md_w16){0})
#endif
#define MD_WINDOW_LOADS(T, E, W, V, UP)                                                                                \
    MD_INLINE W md_pick_##T(W a, W b, md_b index)                                                                      \
    {                                                                                                                  \
        union {                                                                                                        \
            W w;                                                                                                       \
            md_b b;                                                                                                    \
            md_w16 h;                                                                                                  \
        } x = {.w = a}, y = {.w = b};                                                                                  \
        if (sizeof(E) == 4)                                                                                            \
            x.b = MD_PICK(x.b, y.b, index);                                                                            \
        else                                                                                                           \
            x.h = MD_PICK(x.h, y.h, md_thin_w16(index));                                                               \
        return x.w;                                                                                                    \
    }                                                                                                                  \
    MD_INLINE W md_some_of_##T(const void *t, int64_t o, unsigned short bits)                                          \
    {                                                                                                                  \
        union {                                                                                                        \
            W w;                                                                                                       \
            md_b b;                                                                                                    \
            md_w16 h;                                                                                                  \
        } x;                                                                                                           \
        if (sizeof(E) == 4)                                                                                            \
            x.b = MD_SOME_WORDS((const E *)t + o, bits);                                                               \
        else                                                                                                           \
            x.h = MD_SOME_HALVES((const E *)t + o, bits);                                                              \
        return x.w;                                                                                                    \
    }                                                                                                                  \
    MD_INLINE V md_load_##T##_window(const void *t, int64_t o, const md_window *w, int n)                              \
    {                                                                                                                  \
        if (w->kind == MD_WINDOW_RUN)                                                                                  \
            return md_load_##T##_unit(t, o + w->at, n);                                                                \
        if (w->kind == MD_WINDOW_FAR || !MD_HAS_PICK(E))                                                               \
            return UP(md_part_##T##_g(t, w->from + o, n, ~(md_b){0}));                                                 \
        const W a = md_some_of_##T(t, o + w->at, w->first);                                                            \
        const W b = w->kind == MD_WINDOW_ONE ? a : md_some_of_##T(t, o + w->behind, w->second);                        \
        return UP(md_pick_##T(a, b, w->index));                                                                        \
    }
#else
#define MD_WINDOW_LOADS(T, E, W, V, UP)
#endif

#endif
