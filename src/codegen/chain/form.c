/* What a chain's text depends on. */
#include "codegen/chain/pairs.h"

#include "base/dtype.h"
#include "expr/node.h"

/* ---- values that no key changes */

typedef struct facts {
    int32_t axis;
    bool is_variable; /* with keys, or with what the row's sums are */
} facts;

static bool look(void *user, const md_fx_node *n)
{
    facts *f = user;
    f->is_variable |= n->kind == MD_FX_REF || n->kind == MD_FX_REDUCE || n->kind == MD_FX_SCAN ||
                      n->kind == MD_FX_COUNT || md_fx_is_index(n, f->axis);
    /* other loads may lie outside where a guard does not hold */
    for (int32_t i = 0; n->kind == MD_FX_LOAD && i < n->n_args; i++)
        f->is_variable |= n->arg[i]->kind != MD_FX_INDEX;
    return !f->is_variable;
}

static void keep(md_cg_chain *c, const md_fx_node *n)
{
    facts f = {.axis = c->axis};
    if (n->kind != MD_FX_OP && n->kind != MD_FX_CAST && n->kind != MD_FX_LOAD && n->kind != MD_FX_LENGTH)
        return;
    (void)md_fx_visit(n, look, &f);
    for (int32_t i = 0; i < n->n_args && f.is_variable; i++)
        keep(c, n->arg[i]);
    for (int32_t i = 0; i < c->n_kept && !f.is_variable; i++)
        f.is_variable = md_fx_equal(NULL, c->kept[i], n);
    if (!f.is_variable && c->n_kept < MD_CG_MAX_KEPT)
        c->kept[c->n_kept++] = n;
}

static void make_known(void *result, const md_st_program *program, int32_t stage, const void *user)
{
    const md_st_stage *s = &program->stage[stage];
    const md_dev_kind dialect = *(const md_dev_kind *)user;
    md_cg_chain *out = result;
    *out = (md_cg_chain){.program = program, .stage = stage, .dialect = dialect, .c = s->chain, .axis = s->axis};
    keep(out, s->chain->open);
    for (int32_t i = 0; i < s->chain->n_guards; i++)
        keep(out, s->chain->guard[i]);
    keep(out, s->chain->weight);
    for (int32_t i = 0; i < s->chain->n_terms; i++)
        keep(out, s->chain->term[i]);
    for (int32_t i = 0; s->chain->pairs && i < s->chain->pairs->n_sums; i++)
        keep(out, s->chain->pairs->sum[i].weight);
}

static bool chain_of(md_cg_chain *out, const md_st_program *program, int32_t stage, md_dev_kind dialect, bool pairs)
{
    if (program->stage[stage].kind != MD_ST_CHAIN || (program->stage[stage].chain->pairs != NULL) != pairs)
        return false;
    md_st_know(out, program, stage,
               &(md_st_fact){.which = MD_ST_KNOWN_CHAINS + (dialect == MD_DEV_CUDA),
                             .n_bytes = sizeof *out,
                             .make = make_known,
                             .user = &dialect});
    return true;
}

bool md_cg_chain_of(md_cg_chain *out, const md_st_program *program, int32_t stage, md_dev_kind dialect)
{
    return chain_of(out, program, stage, dialect, false);
}

bool md_cg_pairs_of(md_cg_chain *out, const md_st_program *program, int32_t stage, md_dev_kind dialect)
{
    return chain_of(out, program, stage, dialect, true);
}

/* ---- operands */

static bool is_even(const md_cg_chain *c, const md_fx_node *load, int32_t index)
{
    int64_t coef[MD_MAX_RANK];
    return md_st_step(coef, c->program, load->id, load->arg, index);
}

bool md_cg_chain_is_load(const md_cg_chain *c, md_st_side side)
{
    const md_fx_node *load = c->c->side[side].load;
    int32_t n = side == MD_ST_V ? c->c->n_columns : c->c->n_depth;
    const md_dtype dtype = load ? c->program->formula->tensor[load->id].dtype : MD_F64;
    return load && n == 1 && !md_dtype_is_packed(dtype) && md_dtype_compute(dtype) != MD_F64 &&
           is_even(c, load, side == MD_ST_V ? c->c->columns[0] : c->c->depth[0]);
}

bool md_cg_chain_is_linear(const md_cg_chain *c, md_st_side side)
{
    return md_cg_chain_is_load(c, side) && c->c->side[side].is_linear;
}

/* ---- scores and weights */

static bool is_no_index(void *user, const md_fx_node *n)
{
    (void)user;
    return n->kind != MD_FX_INDEX && n->kind != MD_FX_LOAD && n->kind != MD_FX_REF;
}

int32_t md_cg_chain_scales(md_cg_scale out[MD_CG_MAX_SCALES], const md_cg_chain *c)
{
    const md_fx_node *s = c->c->open;
    int32_t n = 0;
    while (c->c->has_maximum && n < MD_CG_MAX_SCALES && s->kind == MD_FX_OP &&
           (s->op == MD_FX_MUL || s->op == MD_FX_DIV)) {
        int x = s->op == MD_FX_MUL && !md_fx_has_kind(s->arg[0], MD_FX_REF);
        if (s->arg[1 - x]->type != MD_F32 || !md_fx_visit(s->arg[1 - x], is_no_index, NULL))
            return 0;
        out[n++] = (md_cg_scale){s->arg[1 - x], s->op == MD_FX_DIV};
        s = s->arg[x];
    }
    return s->kind == MD_FX_REF ? n : 0;
}

int md_cg_chain_is_scaled(const md_cg_chain *c)
{
    md_cg_scale scale[MD_CG_MAX_SCALES];
    int32_t n = md_cg_chain_scales(scale, c);
    int positive = n > 0 ? 2 : 0;
    for (int32_t i = 0; i < n; i++) {
        const md_fx_node *f = scale[i].factor;
        bool is_positive = (f->kind == MD_FX_CONST && f->num > 0) ||
                           (f->kind == MD_FX_OP && (f->op == MD_FX_RSQRT || f->op == MD_FX_SQRT || f->op == MD_FX_EXP));
        positive = is_positive ? positive : 1;
    }
    return positive;
}

md_dtype md_cg_chain_weight(const md_cg_chain *c, bool *is_plain)
{
    const md_fx_node *w = c->c->weight;
    md_dtype type = MD_F32;
    if (w->kind == MD_FX_CAST && md_dtype_is_real(w->to)) {
        type = w->to;
        w = w->arg[0];
    }
    *is_plain = w->kind == MD_FX_REF;
    return type;
}

/* ---- printers */

md_cg *md_cg_chain_printer(const md_cg_chain *c, int32_t lane, md_cg_access access)
{
    return md_cg_create(&(md_cg_options){.program = c->program,
                                         .stage = c->stage,
                                         .dialect = c->dialect,
                                         .lane = lane,
                                         .access = access,
                                         .ignores_lengths = c->dialect == MD_DEV_CUDA});
}

md_status md_cg_chain_end(md_strbuf *defines, md_cg **cg)
{
    md_status status = md_cg_status(*cg);
    md_cg_print_uses(*cg, defines);
    md_cg_destroy(cg);
    return status;
}

static void print_locals(md_strbuf *out, int32_t n, const int32_t *index, const char *from)
{
    for (int32_t i = 0; i < n; i++)
        md_strbuf_printf(out, "const int64_t x%d = %s->x%d;\n(void)x%d;\n", (int)index[i], from, (int)index[i],
                         (int)index[i]);
}

void md_cg_chain_print_batch(md_strbuf *out, const md_cg_chain *c, const char *from)
{
    print_locals(out, c->c->n_batch, c->c->batch, from);
}

void md_cg_chain_print_row(md_strbuf *out, const md_cg_chain *c, const char *from)
{
    md_cg_chain_print_batch(out, c, from);
    print_locals(out, c->c->n_rows, c->c->rows, from);
}

void md_cg_chain_bind_kept(md_cg *cg, const md_cg_chain *c)
{
    static const char *const name[MD_CG_MAX_KEPT] = {"r->kept0", "r->kept1", "r->kept2", "r->kept3",
                                                     "r->kept4", "r->kept5", "r->kept6", "r->kept7"};
    for (int32_t i = 0; i < c->n_kept; i++)
        md_cg_bind(cg, c->kept[i], name[i], true);
}
