/* Walks over shared nodes: visit, rewrite, substitute, free indices. Each distinct node is handled once per call. */
#include "expr/memo.h"
#include "expr/node.h"

#include <string.h>

typedef struct visitor {
    md_fx_visit_fn fn;
    void *user;
    md_memo seen;
} visitor;

static bool visit(visitor *v, const md_fx_node *node)
{
    if (md_memo_find(&v->seen, node, NULL, 0, NULL))
        return true;
    for (int32_t i = 0; i < node->n_args; i++)
        if (!visit(v, node->arg[i]))
            return false;
    if (!v->fn(v->user, node))
        return false;
    if (node->n_args > 0)
        (void)md_memo_put(&v->seen, node, NULL, 0, NULL); /* short of memory it is only slower */
    return true;
}

bool md_fx_visit(const md_fx_node *node, md_fx_visit_fn fn, void *user)
{
    visitor v = {.fn = fn, .user = user};
    bool ok = visit(&v, node);
    md_memo_finish(&v.seen);
    return ok;
}

static bool is_other_kind(void *user, const md_fx_node *node)
{
    return node->kind != *(const md_fx_kind *)user;
}

bool md_fx_has_kind(const md_fx_node *node, md_fx_kind kind)
{
    return !md_fx_visit(node, is_other_kind, &kind);
}

bool md_fx_is_checked(const md_fx_node *subscript)
{
    return subscript->kind == MD_FX_CHECK || md_fx_has_kind(subscript, MD_FX_LOAD);
}

bool md_fx_binds(const md_fx_node *node, int32_t index)
{
    for (int32_t i = 0; i < node->n_bound; i++)
        if (node->bound[i] == index)
            return true;
    return false;
}

static bool uses(md_memo *seen, const md_fx_node *node, int32_t index)
{
    if (node->kind == MD_FX_INDEX)
        return node->id == index;
    if (md_fx_binds(node, index))
        return node->kind == MD_FX_SCAN; /* a scan runs along a free index: its value depends on the position */
    if (node->n_args == 0 || md_memo_find(seen, node, NULL, 0, NULL))
        return false;
    for (int32_t i = 0; i < node->n_args; i++)
        if (uses(seen, node->arg[i], index))
            return true;
    (void)md_memo_put(seen, node, NULL, 0, NULL);
    return false;
}

bool md_fx_uses_index(const md_fx_node *node, int32_t index)
{
    md_memo seen = {0};
    bool found = uses(&seen, node, index);
    md_memo_finish(&seen);
    return found;
}

bool md_fx_uses_any_index(const md_fx_node *node, int32_t n, const int32_t *index)
{
    for (int32_t i = 0; i < n; i++)
        if (md_fx_uses_index(node, index[i]))
            return true;
    return false;
}

/* The node with other operands: itself where they are the same. */
static const md_fx_node *with_args(md_arena *arena, const md_fx_node *node, const md_fx_node *const *arg)
{
    if (node->n_args == 0 || memcmp(node->arg, arg, (size_t)node->n_args * sizeof *arg) == 0)
        return node;
    md_fx_node *copy = md_fx_node_new(arena, node->kind, node->type);
    const md_fx_node **args = md_arena_alloc(arena, (size_t)node->n_args * sizeof *args);
    if (!copy || !args)
        return NULL;
    memcpy(args, arg, (size_t)node->n_args * sizeof *args);
    *copy = *node;
    copy->arg = args;
    return copy;
}

enum { MAX_ARGS = MD_MAX_RANK };

typedef struct rewriter {
    md_arena *arena;
    md_fx_rewrite_fn fn;
    void *user;
    md_memo done;
} rewriter;

static const md_fx_node *rewrite(rewriter *r, const md_fx_node *node)
{
    const void *known = NULL;
    if (md_memo_find(&r->done, node, NULL, 0, &known))
        return known;
    const md_fx_node *arg[MAX_ARGS];
    for (int32_t i = 0; i < node->n_args; i++) {
        arg[i] = rewrite(r, node->arg[i]);
        if (!arg[i])
            return NULL;
    }
    const md_fx_node *rebuilt = with_args(r->arena, node, arg);
    const md_fx_node *result = rebuilt ? r->fn(r->user, rebuilt) : NULL;
    if (!result || !md_memo_put(&r->done, node, NULL, 0, result))
        return NULL;
    return result;
}

const md_fx_node *md_fx_rewrite(md_arena *arena, const md_fx_node *node, md_fx_rewrite_fn fn, void *user)
{
    if (!node)
        return NULL;
    rewriter r = {.arena = arena, .fn = fn, .user = user};
    const md_fx_node *result = rewrite(&r, node);
    md_memo_finish(&r.done);
    return result;
}

typedef struct substituter {
    md_arena *arena;
    int32_t n;
    const int32_t *from;
    const md_fx_node *const *to;
    md_memo done;
} substituter;

static const md_fx_node *substitute(substituter *s, const md_fx_node *node);

static int32_t find_from(const substituter *s, int32_t index)
{
    for (int32_t i = 0; i < s->n; i++)
        if (s->from[i] == index)
            return i;
    return -1;
}

/* A scan along a replaced index runs along the replacement, which can only be another index. */
static const md_fx_node *rename_scan(substituter *s, const md_fx_node *scan)
{
    int32_t i = find_from(s, scan->bound[0]);
    if (i < 0)
        return scan;
    if (s->to[i]->kind != MD_FX_INDEX)
        return NULL;
    md_fx_node *copy = md_fx_node_new(s->arena, MD_FX_SCAN, scan->type);
    if (copy) {
        *copy = *scan;
        copy->bound[0] = s->to[i]->id;
    }
    return copy;
}

/* True if a reduction binds one of the replaced indices: inside, that index is another one. */
static bool shadows(const substituter *s, const md_fx_node *node)
{
    for (int32_t i = 0; node->kind == MD_FX_REDUCE && i < node->n_bound; i++)
        if (find_from(s, node->bound[i]) >= 0)
            return true;
    return false;
}

static const md_fx_node *substitute_shadowed(substituter *s, const md_fx_node *node)
{
    int32_t from[MD_FX_MAX_INDICES], n = 0;
    const md_fx_node *to[MD_FX_MAX_INDICES];
    for (int32_t i = 0; i < s->n && n < MD_FX_MAX_INDICES; i++) {
        if (md_fx_binds(node, s->from[i]))
            continue;
        from[n] = s->from[i];
        to[n++] = s->to[i];
    }
    return md_fx_substitute(s->arena, node, n, from, to);
}

static const md_fx_node *substitute_args(substituter *s, const md_fx_node *node)
{
    const md_fx_node *arg[MAX_ARGS];
    for (int32_t i = 0; i < node->n_args; i++) {
        arg[i] = substitute(s, node->arg[i]);
        if (!arg[i])
            return NULL;
    }
    const md_fx_node *result = with_args(s->arena, node, arg);
    return result && node->kind == MD_FX_SCAN ? rename_scan(s, result) : result;
}

static const md_fx_node *substitute(substituter *s, const md_fx_node *node)
{
    if (node->kind == MD_FX_INDEX) {
        int32_t i = find_from(s, node->id);
        return i >= 0 ? s->to[i] : node;
    }
    if (node->n_args == 0)
        return node;
    const void *known = NULL;
    if (md_memo_find(&s->done, node, NULL, 0, &known))
        return known;
    const md_fx_node *result = shadows(s, node) ? substitute_shadowed(s, node) : substitute_args(s, node);
    if (!result || !md_memo_put(&s->done, node, NULL, 0, result))
        return NULL;
    return result;
}

const md_fx_node *md_fx_substitute(md_arena *arena, const md_fx_node *node, int32_t n, const int32_t *from,
                                   const md_fx_node *const *to)
{
    if (!node || n == 0)
        return node;
    substituter s = {.arena = arena, .n = n, .from = from, .to = to};
    const md_fx_node *result = substitute(&s, node);
    md_memo_finish(&s.done);
    return result;
}
