/* True if an output may lie exactly on an input. */
#include "stage/form.h"

typedef struct question {
    const md_st_stage *stage;
    const md_st_store *store; /* of the output */
    int32_t tensor; /* the input */
    bool is_reduction; /* all reductions of a row are over before its elements are stored */
} question;

/* Where the output runs over the axis, a reduction may read its row anywhere. */
static bool is_in_row(const question *q, int32_t i, const md_fx_node *read)
{
    if (!q->is_reduction || q->store->per_row || !md_fx_is_index(q->store->subscript[i], q->stage->axis))
        return false;
    return !md_fx_has_kind(read, MD_FX_LOAD);
}

static bool is_harmless(void *user, const md_fx_node *node)
{
    const question *q = user;
    /* within a value: it reads its whole row, for one of several scans or again for each element */
    if (node->kind == MD_FX_SCAN)
        return !md_st_reads(node, q->tensor);
    if (node->kind != MD_FX_LOAD || node->id != q->tensor)
        return true;
    if (node->n_args != q->store->n_subscripts)
        return false;
    for (int32_t i = 0; i < node->n_args; i++)
        if (!md_fx_equal(NULL, node->arg[i], q->store->subscript[i]) && !is_in_row(q, i, node->arg[i]))
            return false;
    return true;
}

static bool reads(const md_st_stage *s, int32_t tensor)
{
    for (int32_t i = 0; i < s->n_tensors; i++)
        if (s->tensor[i] == tensor)
            return true;
    return false;
}

/* Values of per-row stores may be written before or after the elements are read. */
static bool values_are_harmless(question *q)
{
    const md_st_stage *s = q->stage;
    for (int32_t i = 0; i < s->n_stores; i++) {
        if (s->kind == MD_ST_ROW && s->store[i].per_row != q->store->per_row &&
            md_st_reads(s->store[i].value, q->tensor))
            return false;
        if (!md_fx_visit(s->store[i].value, is_harmless, q))
            return false;
        for (int32_t k = 0; k < s->store[i].n_subscripts; k++)
            if (md_st_reads(s->store[i].subscript[k], q->tensor))
                return false;
    }
    return true;
}

static bool stage_is_harmless(const md_st_stage *s, const md_st_store *store, int32_t tensor)
{
    /* the chain reads it again while other rows are written */
    if (s->chain && md_st_chain_reads(s->chain, tensor))
        return false;
    question q = {.stage = s, .store = store, .tensor = tensor};
    if (!values_are_harmless(&q))
        return false;
    if (md_st_product_reads(&s->product, tensor))
        return false;
    if (s->kind == MD_ST_SCAN && !md_fx_visit(s->scan.body, is_harmless, &q))
        return false;
    q.is_reduction = true;
    for (int32_t i = 0; i < s->row.n_reductions; i++)
        if (!md_fx_visit(s->row.reduction[i].body, is_harmless, &q))
            return false;
    return true;
}

static bool may_alias(const md_st_program *program, int32_t out, int32_t in)
{
    const md_fx_tensor *a = &program->formula->tensor[out], *b = &program->formula->tensor[in];
    bool is_written = false;
    if (a->dtype != b->dtype || a->rank != b->rank || b->role != MD_FX_INPUT || a->is_rewritten)
        return false;
    for (int32_t i = 0; i < program->n_stages; i++) {
        const md_st_stage *s = &program->stage[i];
        if (is_written && reads(s, in))
            return false;
        for (int32_t k = 0; k < s->n_stores; k++) {
            const md_st_store *store = &s->store[k];
            if (store->tensor != out)
                continue;
            is_written = true;
            bool is_simple = md_st_are_plain(store->n_subscripts, store->subscript);
            if (reads(s, in) && (!is_simple || !stage_is_harmless(s, store, in)))
                return false;
        }
    }
    return true;
}

/* Answers for all pairs: bit `in` of word `out`. */
typedef struct aliases {
    uint32_t may[MD_FX_MAX_TENSORS];
} aliases;
_Static_assert(MD_FX_MAX_TENSORS <= 32, "a bit for each tensor");

static void make_aliases(void *result, const md_st_program *program, int32_t stage, const void *user)
{
    const md_fx_formula *f = program->formula;
    aliases *a = result;
    (void)stage, (void)user;
    *a = (aliases){{0}};
    for (int32_t out = 0; out < f->n_tensors; out++)
        for (int32_t in = 0; in < f->n_tensors && f->tensor[out].role == MD_FX_OUTPUT; in++)
            a->may[out] |= (uint32_t)may_alias(program, out, in) << in;
}

bool md_st_may_alias(const md_st_program *program, int32_t out, int32_t in)
{
    aliases room;
    if (program->n_stages == 0 || program->formula->tensor[out].role != MD_FX_OUTPUT)
        return may_alias(program, out, in);
    const aliases *a = md_st_look(
        &room, program, 0, &(md_st_fact){.which = MD_ST_KNOWN_ALIASES, .n_bytes = sizeof room, .make = make_aliases});
    return a->may[out] >> in & 1;
}
