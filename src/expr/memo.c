/* A small hash map from pairs of pointers and a tag to a pointer, with open addressing. */
#include "expr/memo.h"

#include <stdlib.h>

static size_t hash_of(const void *a, const void *b, intptr_t tag)
{
    uint64_t h = (uint64_t)(uintptr_t)a * 0x9e3779b97f4a7c15u;
    h = (h ^ (uint64_t)(uintptr_t)b) * 0xbf58476d1ce4e5b9u;
    h = (h ^ (uint64_t)tag) * 0x94d049bb133111ebu;
    return (size_t)(h ^ (h >> 29));
}

/* The slot of the key, or the free one where it belongs. There always is a free one. */
static md_memo_slot *slot_of(const md_memo *m, const void *a, const void *b, intptr_t tag)
{
    size_t i = hash_of(a, b, tag) & (m->capacity - 1);
    for (;; i = (i + 1) & (m->capacity - 1)) {
        md_memo_slot *s = &m->slot[i];
        if (!s->a || (s->a == a && s->b == b && s->tag == tag))
            return s;
    }
}

/* NULL where the key is not there. */
static const md_memo_slot *among_few(const md_memo *m, const void *a, const void *b, intptr_t tag)
{
    for (const md_memo_slot *s = m->few; s < m->few + m->n; s++)
        if (s->a == a && s->b == b && s->tag == tag)
            return s;
    return NULL;
}

static bool grow(md_memo *m)
{
    md_memo larger = {.n = m->n, .capacity = m->capacity > 0 ? m->capacity * 2 : 64};
    const md_memo_slot *from = m->capacity > 0 ? m->slot : m->few;
    const size_t n_from = m->capacity > 0 ? m->capacity : m->n;
    larger.slot = calloc(larger.capacity, sizeof *larger.slot);
    if (!larger.slot)
        return false;
    for (const md_memo_slot *s = from; s < from + n_from; s++)
        if (s->a)
            *slot_of(&larger, s->a, s->b, s->tag) = *s;
    free(m->slot);
    m->slot = larger.slot;
    m->capacity = larger.capacity;
    return true;
}

void md_memo_finish(md_memo *m)
{
    if (m->capacity > 0)
        free(m->slot);
    m->slot = NULL;
    m->n = m->capacity = 0;
}

bool md_memo_find(const md_memo *m, const void *a, const void *b, intptr_t tag, const void **value)
{
    const md_memo_slot *s = m->capacity == 0 ? among_few(m, a, b, tag) : slot_of(m, a, b, tag);
    if (!s || !s->a)
        return false;
    if (value)
        *value = s->value;
    return true;
}

bool md_memo_put(md_memo *m, const void *a, const void *b, intptr_t tag, const void *value)
{
    md_memo_slot *s = m->capacity == 0 ? (md_memo_slot *)(uintptr_t)among_few(m, a, b, tag) : NULL;
    if (!s && m->capacity == 0 && m->n < MD_MEMO_FEW)
        *(s = &m->few[m->n]) = (md_memo_slot){0};
    if (!s && (m->n + 1) * 4 > m->capacity * 3 && !grow(m))
        return false;
    s = s ? s : slot_of(m, a, b, tag);
    if (!s->a)
        m->n++;
    *s = (md_memo_slot){.a = a, .b = b, .tag = tag, .value = value};
    return true;
}
