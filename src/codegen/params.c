/* Which parameters a stage's kernels get, and the struct that holds them. */
#include "codegen/codegen.h"

#include <inttypes.h>

void md_cg_visit(const md_st_stage *stage, md_fx_visit_fn fn, void *user)
{
    for (int32_t i = 0; i < stage->n_stores; i++) {
        const md_st_store *s = &stage->store[i];
        (void)md_fx_visit(s->value, fn, user);
        for (int32_t a = 0; a < s->n_subscripts; a++)
            (void)md_fx_visit(s->subscript[a], fn, user);
    }
    for (int32_t i = 0; stage->kind == MD_ST_ROW && i < stage->row.n_reductions; i++)
        (void)md_fx_visit(stage->row.reduction[i].body, fn, user);
    for (int32_t i = 0; stage->kind == MD_ST_PRODUCT && i < stage->product.n_products; i++) {
        (void)md_fx_visit(stage->product.a[i], fn, user);
        (void)md_fx_visit(stage->product.b[i], fn, user);
    }
    if (stage->kind == MD_ST_PRODUCT && stage->product.guard)
        (void)md_fx_visit(stage->product.guard, fn, user);
    if (stage->kind == MD_ST_SCAN)
        (void)md_fx_visit(stage->scan.body, fn, user);
    if (stage->kind == MD_ST_CHAIN)
        (void)md_st_visit_chain(stage->chain, fn, user);
}

/* What the stage's expressions mention. */
typedef struct mentions {
    const md_st_program *program;
    bool dim[MD_FX_MAX_DIMS], scalar[MD_FX_MAX_SCALARS], checks;
} mentions;

static void note_index(mentions *m, int32_t index)
{
    if (index >= 0)
        m->dim[m->program->index[index].dim] = true;
}

static bool note_node(void *user, const md_fx_node *n)
{
    mentions *m = user;
    if (n->kind == MD_FX_SIZE)
        m->dim[n->id] = true;
    if (n->kind == MD_FX_SCALAR)
        m->scalar[n->id] = true;
    if (n->kind == MD_FX_INDEX)
        note_index(m, n->id);
    for (int32_t i = 0; i < n->n_bound; i++)
        note_index(m, n->bound[i]);
    if (n->kind == MD_FX_LENGTH)
        m->dim[n->id] = m->checks = true;
    for (int32_t i = 0; n->kind == MD_FX_LOAD && i < n->n_args; i++)
        m->checks |= md_fx_is_checked(n->arg[i]);
    return true;
}

static void note_indices(mentions *m, int32_t n, const int32_t *index)
{
    for (int32_t i = 0; i < n; i++)
        note_index(m, index[i]);
}

static void note_stage(mentions *m, const md_st_stage *st)
{
    const md_fx_formula *f = m->program->formula;
    note_indices(m, st->n_outer, st->outer);
    note_index(m, st->axis);
    if (st->kind == MD_ST_PRODUCT) {
        note_indices(m, st->product.n_batch, st->product.batch);
        note_indices(m, st->product.n_m, st->product.m);
        note_indices(m, st->product.n_n, st->product.n);
        note_indices(m, st->product.n_k, st->product.k);
    }
    if (st->kind == MD_ST_CHAIN) {
        note_indices(m, st->chain->n_depth, st->chain->depth);
        for (int32_t i = 0; i < st->chain->n_bounds; i++)
            for (int32_t k = 0; k < st->chain->bound[i].n; k++)
                if (st->chain->bound[i].term[k].term)
                    (void)md_fx_visit(st->chain->bound[i].term[k].term, note_node, m);
    }
    md_cg_visit(st, note_node, m);
    for (int32_t i = 0; i < st->n_stores; i++)
        for (int32_t a = 0; a < st->store[i].n_subscripts; a++)
            m->checks |= md_fx_has_kind(st->store[i].subscript[a], MD_FX_LOAD);
    /* A check needs the length of the axis. */
    for (int32_t i = 0; m->checks && i < st->n_tensors; i++) {
        const md_fx_tensor *t = &f->tensor[st->tensor[i]];
        for (int32_t a = 0; a < t->rank; a++)
            m->dim[t->dim[a]] |= !t->at_least[a];
    }
}

typedef struct params {
    md_kn_param *param;
    int32_t n;
    bool is_full;
} params;

static void add(params *l, md_kn_param_kind kind, int32_t a, int32_t b, bool is_real)
{
    l->is_full |= l->n >= MD_KN_MAX_PARAMS - 8;
    if (!l->is_full)
        l->param[l->n++] = (md_kn_param){.kind = (uint8_t)kind, .a = (uint8_t)a, .b = (uint8_t)b, .is_real = is_real};
}

int32_t md_cg_params(md_kn_param *out, const md_st_program *program, int32_t stage)
{
    const md_st_stage *st = &program->stage[stage];
    const md_fx_formula *f = program->formula;
    mentions m = {.program = program};
    params l = {.param = out};
    note_stage(&m, st);
    for (int32_t i = 0; i < st->n_tensors; i++)
        add(&l, MD_KN_POINTER, st->tensor[i], 0, false);
    for (int32_t i = 0; i < st->n_tensors; i++)
        for (int32_t a = 0; a < f->tensor[st->tensor[i]].rank; a++)
            add(&l, MD_KN_STRIDE, st->tensor[i], a, false);
    for (int32_t i = 0; m.checks && i < st->n_tensors; i++)
        for (int32_t a = 0; a < f->tensor[st->tensor[i]].rank; a++)
            if (f->tensor[st->tensor[i]].at_least[a])
                add(&l, MD_KN_EXTENT, st->tensor[i], a, false);
    for (int32_t d = 0; d < f->n_dims; d++)
        if (m.dim[d] && f->dim[d].size < 0)
            add(&l, MD_KN_SIZE, d, 0, false);
    for (int32_t s = 0; s < f->n_scalars; s++)
        if (m.scalar[s])
            add(&l, MD_KN_SCALAR, s, 0, f->scalar[s].type != MD_I64);
    if (m.checks)
        add(&l, MD_KN_REPORT, 0, 0, false);
    return l.is_full ? -1 : l.n;
}

static const struct {
    const char *type, *name;
    int32_t n_numbers;
} field[] = {
    [MD_KN_POINTER] = {"void *", "t", 1},        [MD_KN_STRIDE] = {"int64_t ", "s", 2},
    [MD_KN_EXTENT] = {"int64_t ", "e", 2},       [MD_KN_SIZE] = {"int64_t ", "n", 1},
    [MD_KN_SCALAR] = {"int64_t ", "c", 1},       [MD_KN_WORKSPACE] = {"void *", "work", 1},
    [MD_KN_REPORT] = {"void *", "report", 0},    [MD_KN_BLOCKS] = {"int64_t ", "blocks", 0},
    [MD_KN_STAGE] = {"const void *", "call", 0}, [MD_KN_COUNTERS] = {"void *", "counters", 1},
    [MD_KN_MAP] = {"md_tensor_map ", "map", 1},  [MD_KN_PAD] = {"int64_t ", "pad", 1},
    [MD_KN_PACKED] = {"void *", "packed", 0},
};

static void print_name(md_strbuf *out, const md_kn_param *param)
{
    md_strbuf_add(out, field[param->kind].name);
    if (field[param->kind].n_numbers > 0)
        md_strbuf_printf(out, "%d", param->a);
    if (field[param->kind].n_numbers > 1)
        md_strbuf_printf(out, "_%d", param->b);
}

static const char *type_of(const md_kn_param *param)
{
    return param->kind == MD_KN_SCALAR && param->is_real ? "double " : field[param->kind].type;
}

void md_cg_print_params(md_strbuf *out, const md_kn_param *list, int32_t n)
{
    md_strbuf_add(out, "typedef struct md_params {\n");
    for (int32_t i = 0; i < n; i++) {
        if (list[i].kind == MD_KN_MAP && list[i].b > 0)
            continue;
        md_strbuf_printf(out, "    %s", type_of(&list[i]));
        print_name(out, &list[i]);
        md_strbuf_add(out, ";\n");
    }
    md_strbuf_add(out, n == 0 ? "    int64_t none;\n} md_params;\n" : "} md_params;\n");
}

void md_cg_print_short_params(md_strbuf *out, const md_kn_param *list, int32_t n)
{
    md_strbuf copies = {0};
    md_strbuf_add(out, "typedef struct md_short_params {\n");
    for (int32_t i = 0; i < n; i++) {
        const bool is_short =
            list[i].kind == MD_KN_STRIDE || list[i].kind == MD_KN_EXTENT || list[i].kind == MD_KN_SIZE;
        md_strbuf_printf(out, "    %s", is_short ? "int32_t " : type_of(&list[i]));
        print_name(out, &list[i]);
        md_strbuf_printf(&copies, "%s%s", i > 0 ? ", " : "", is_short ? "(int32_t)p->" : "p->");
        print_name(&copies, &list[i]);
        md_strbuf_add(out, ";\n");
    }
    md_strbuf_printf(out,
                     "} md_short_params;\nMD_INLINE md_short_params md_shorten(const md_params *p)\n{\n"
                     "const md_short_params s = {%s};\nreturn s;\n}\n",
                     md_strbuf_text(&copies));
    out->failed |= copies.failed;
    md_strbuf_finish(&copies);
}

void md_cg_print_length(md_strbuf *out, const md_st_program *program, int32_t tensor, int32_t axis)
{
    const md_fx_tensor *t = &program->formula->tensor[tensor];
    const int64_t size = program->formula->dim[t->dim[axis]].size;
    if (t->at_least[axis])
        md_strbuf_printf(out, "p->e%" PRId32 "_%" PRId32, tensor, axis);
    else if (size >= 0)
        md_strbuf_printf(out, "INT64_C(%" PRId64 ")", size);
    else
        md_strbuf_printf(out, "p->n%" PRId32, t->dim[axis]);
}

void md_cg_print_elements(md_strbuf *out, const md_st_program *program, int32_t tensor)
{
    md_strbuf_add(out, "(INT64_C(1)");
    for (int32_t i = 0; i < program->formula->tensor[tensor].rank; i++) {
        md_strbuf_add(out, " * ");
        md_cg_print_length(out, program, tensor, i);
    }
    md_strbuf_add(out, ")");
}
