/* Value numbers: nodes of one structure are one value, and what is known of it in the text printed so far. */
#include "base/grow.h"
#include "base/hash.h"
#include "codegen/expression/printer.h"

#include <string.h>

/* All that makes two nodes with equal operands the same value; hashed and compared as bytes. */
typedef struct head {
    int32_t kind, op, type, to, id, n_args, n_bound, flags;
    int32_t bound[MD_MAX_RANK];
    double num;
    int64_t integer;
} head;

static void head_of(head *out, const md_fx_node *n)
{
    memset(out, 0, sizeof *out);
    out->kind = (int32_t)n->kind;
    out->op = (int32_t)n->op;
    out->type = (int32_t)n->type;
    out->to = (int32_t)n->to;
    out->id = n->id;
    out->n_args = n->n_args;
    out->n_bound = n->n_bound;
    out->flags = n->unbiased | n->exclusive << 1 | n->reverse << 2;
    memcpy(out->bound, n->bound, (size_t)n->n_bound * sizeof n->bound[0]);
    out->num = n->num;
    out->integer = n->integer;
}

static bool is_same(const md_cg_value_number *v, const head *h, md_cg_value_number *const *arg)
{
    head other;
    head_of(&other, v->node);
    return memcmp(&other, h, sizeof *h) == 0 &&
           (h->n_args == 0 || memcmp(v->arg, arg, (size_t)h->n_args * sizeof(arg[0])) == 0);
}

static bool append(md_cg *cg, md_cg_value_number *v)
{
    if (!md_grow(&cg->value, (size_t)cg->n_values, sizeof(cg->value[0])))
        return false;
    cg->value[cg->n_values++] = v;
    return true;
}

static md_cg_value_number *find_or_add(md_cg *cg, const md_fx_node *node, md_cg_value_number **arg)
{
    head h;
    head_of(&h, node);
    uint64_t hash = md_hash64(&h, sizeof h);
    for (int32_t i = 0; i < node->n_args; i++)
        hash = hash * UINT64_C(0x9e3779b97f4a7c15) + arg[i]->hash;
    for (int32_t i = 0; i < cg->n_values; i++)
        if (cg->value[i]->hash == hash && is_same(cg->value[i], &h, arg))
            return cg->value[i];
    md_cg_value_number *v = md_arena_alloc(cg->arena, sizeof *v);
    if (!v || !append(cg, v))
        return NULL;
    *v = (md_cg_value_number){.node = node, .arg = arg, .hash = hash, .varies = -1, .is_guarded = -1};
    return v;
}

md_cg_value_number *md_cg_number(md_cg *cg, const md_fx_node *node)
{
    const void *found = NULL;
    md_cg_value_number *v = NULL;
    if (md_memo_find(&cg->numbers, node, NULL, 0, &found)) {
        memcpy(&v, &found, sizeof v);
    } else {
        md_cg_value_number **arg = md_arena_alloc(cg->arena, ((size_t)node->n_args + 1) * sizeof *arg);
        bool ok = arg != NULL;
        for (int32_t i = 0; ok && i < node->n_args; i++)
            ok = (arg[i] = md_cg_number(cg, node->arg[i])) != NULL;
        v = ok ? find_or_add(cg, node, arg) : NULL;
        if (!v || !md_memo_put(&cg->numbers, node, NULL, 0, v)) {
            md_cg_error(cg, md_fail_memory());
            return NULL;
        }
    }
    if (v->epoch != cg->epoch) {
        v->epoch = cg->epoch;
        v->varies = -1;
        v->known = NULL;
    }
    return v;
}

/* An operand, its memory of older bodies dropped. */
static md_cg_value_number *arg_of(md_cg *cg, md_cg_value_number *v, int32_t i)
{
    return md_cg_number(cg, v->arg[i]->node);
}

static bool reaches_lane(md_cg *cg, md_cg_value_number *v)
{
    if (v->node->kind == MD_FX_INDEX)
        return v->node->id == cg->o.lane;
    if (v->node->kind == MD_FX_SCAN && v->node->bound[0] == cg->o.lane)
        return true;
    for (int32_t i = 0; i < v->node->n_args; i++) {
        md_cg_value_number *a = arg_of(cg, v, i);
        if (a && md_cg_varies(cg, a))
            return true;
    }
    return false;
}

bool md_cg_varies(md_cg *cg, md_cg_value_number *v)
{
    if (v->known)
        return !v->known->name.is_uniform;
    if (v->varies < 0)
        v->varies = reaches_lane(cg, v);
    return v->varies;
}

/* True if the subscripts need no check: plain indices that run over the axes' own dims. */
static bool is_plain_load(const md_cg *cg, const md_fx_node *n)
{
    for (int32_t i = 0; i < n->n_args; i++)
        if (n->arg[i]->kind != MD_FX_INDEX || cg->formula->tensor[n->id].at_least[i])
            return false;
    return true;
}

bool md_cg_is_guarded(md_cg *cg, md_cg_value_number *v)
{
    if (v->is_guarded >= 0)
        return v->is_guarded;
    md_fx_kind kind = v->node->kind;
    bool is = kind == MD_FX_REDUCE || kind == MD_FX_SCAN || (kind == MD_FX_LOAD && !is_plain_load(cg, v->node)) ||
              (kind == MD_FX_LENGTH && !cg->o.ignores_lengths);
    for (int32_t i = 0; !is && i < v->node->n_args; i++)
        is = md_cg_is_guarded(cg, v->arg[i]);
    v->is_guarded = is;
    return is;
}

/* True if something known in `scope` may be used here by a value that uses these indices (NULL: unknown). */
static bool is_visible(const md_cg *cg, const md_cg_known *k, const md_fx_node *node)
{
    if (k->mask && k->mask != cg->mask)
        return false;
    int32_t at = cg->depth;
    while (at >= 0 && cg->scope[at].id != k->scope)
        at--;
    if (at < 0)
        return false; /* the block where it was declared is closed */
    for (int32_t i = at + 1; i <= cg->depth; i++)
        if (cg->scope[i].hidden >= 0 && (!node || md_fx_uses_index(node, cg->scope[i].hidden)))
            return false;
    return true;
}

const md_cg_name *md_cg_find(md_cg *cg, md_cg_value_number *v)
{
    for (md_cg_known *k = v->known; k; k = k->next)
        if (is_visible(cg, k, v->node))
            return &k->name;
    return NULL;
}

static md_cg_known known_here(const md_cg *cg, md_cg_name name, bool at_root, bool is_guarded)
{
    return (md_cg_known){
        .name = name, .mask = !at_root && is_guarded ? cg->mask : NULL, .scope = at_root ? 0 : cg->scope[cg->depth].id};
}

void md_cg_know(md_cg *cg, md_cg_value_number *v, md_cg_name name, bool at_root)
{
    if (!name.text)
        return;
    md_cg_known *k = md_arena_alloc(cg->arena, sizeof *k);
    if (!k) {
        md_cg_error(cg, md_fail_memory());
        return;
    }
    *k = known_here(cg, name, at_root, md_cg_is_guarded(cg, v));
    k->next = v->known;
    v->known = k;
}

static md_cg_name find_text(md_cg *cg, const char *text)
{
    for (md_cg_text *t = cg->texts; text && t; t = t->next)
        if (strcmp(t->text, text) == 0 && is_visible(cg, &t->known, NULL))
            return t->known.name;
    return (md_cg_name){NULL, true};
}

static void know_text(md_cg *cg, const char *text, md_cg_name name, bool at_root)
{
    md_cg_text *t = name.text && text ? md_arena_alloc(cg->arena, sizeof *t) : NULL;
    if (!t) {
        if (name.text)
            md_cg_error(cg, md_fail_memory());
        return;
    }
    *t = (md_cg_text){.next = cg->texts, .text = text, .known = known_here(cg, name, at_root, true)};
    cg->texts = t;
}

const char *md_cg_share(md_cg *cg, const char *c_type, const char *text, bool is_hoisted)
{
    md_cg_name name = find_text(cg, text);
    if (!name.text) {
        name = md_cg_declare(cg, c_type, true, is_hoisted, text);
        know_text(cg, text, name, is_hoisted);
    }
    return name.text;
}

/* ---- For families */

void md_cg_bind(md_cg *cg, const md_fx_node *node, const char *name, bool is_uniform)
{
    md_cg_value_number *v = node ? md_cg_number(cg, node) : NULL;
    const char *copy = v ? md_cg_format(cg, "%s", name) : NULL;
    if (copy)
        md_cg_know(cg, v, (md_cg_name){copy, is_uniform}, true);
}

void md_cg_bind_ref(md_cg *cg, int32_t id, md_dtype type, const char *name, bool is_uniform)
{
    const md_fx_node *node = md_fx_ref(cg->arena, id, type);
    if (node)
        md_cg_bind(cg, node, name, is_uniform);
    else
        md_cg_error(cg, md_fail_memory());
}
