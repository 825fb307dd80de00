/* Sets of index ids. */
#ifndef MD_STAGE_SET_H
#define MD_STAGE_SET_H

#include "base/status.h"
#include "expr/formula.h"

typedef struct md_st_set {
    uint64_t word[(MD_FX_MAX_INDICES * 2 + 63) / 64];
} md_st_set;

static inline void md_st_set_add(md_st_set *s, int32_t id)
{
    s->word[id / 64] |= (uint64_t)1 << (id % 64);
}

static inline bool md_st_set_has(const md_st_set *s, int32_t id)
{
    return (s->word[id / 64] >> (id % 64) & 1) != 0;
}

static inline md_st_set md_st_set_of(int32_t n, const int32_t *id)
{
    md_st_set s = {{0}};
    for (int32_t i = 0; i < n; i++)
        md_st_set_add(&s, id[i]);
    return s;
}

/** Adds the ids of another set. */
static inline void md_st_set_unite(md_st_set *s, const md_st_set *other)
{
    for (int32_t i = 0; i < MD_COUNT(s->word); i++)
        s->word[i] |= other->word[i];
}

static inline md_st_set md_st_set_without(const md_st_set *a, const md_st_set *b)
{
    md_st_set r;
    for (int32_t i = 0; i < MD_COUNT(r.word); i++)
        r.word[i] = a->word[i] & ~b->word[i];
    return r;
}

static inline bool md_st_set_is_disjoint(const md_st_set *a, const md_st_set *b)
{
    uint64_t both = 0;
    for (int32_t i = 0; i < MD_COUNT(a->word); i++)
        both |= a->word[i] & b->word[i];
    return both == 0;
}

/** True if b has every id of a. */
static inline bool md_st_set_is_within(const md_st_set *a, const md_st_set *b)
{
    const md_st_set rest = md_st_set_without(a, b);
    return md_st_set_is_disjoint(&rest, &rest);
}

#endif
