/* Stages in words, and what they cost at a size. */
#include "stage/form.h"

#include "base/dtype.h"
#include "base/strbuf.h"

#include <math.h>

static const char *plural(int32_t n)
{
    return n == 1 ? "" : "s";
}

static void describe_pointwise(md_strbuf *out, const md_st_program *p, const md_st_stage *s)
{
    (void)p;
    md_strbuf_printf(out, "pointwise: %d store%s", s->n_stores, plural(s->n_stores));
}

static void describe_row(md_strbuf *out, const md_st_program *p, const md_st_stage *s)
{
    const md_st_row *r = &s->row;
    md_strbuf_printf(out, "row over %s: %d reduction%s, %d level%s, %s", p->index[s->axis].name, r->n_reductions,
                     plural(r->n_reductions), r->n_levels, plural(r->n_levels),
                     r->is_online ? "online" : "staged only");
    if (!r->has_elements)
        md_strbuf_add(out, ", no element is stored");
}

static void add_group(md_strbuf *out, const md_st_program *p, const char *title, int32_t n, const int32_t *index)
{
    md_strbuf_printf(out, "%s[", title);
    for (int32_t i = 0; i < n; i++)
        md_strbuf_printf(out, "%s%s", i > 0 ? "," : "", p->index[index[i]].name);
    md_strbuf_add(out, "]");
}

static void describe_product(md_strbuf *out, const md_st_program *p, const md_st_stage *s)
{
    const md_st_product *product = &s->product;
    md_strbuf_printf(out, "product%s", product->n_products == 2 ? " x2" : "");
    if (product->n_batch > 0)
        add_group(out, p, " batch", product->n_batch, product->batch);
    add_group(out, p, " m", product->n_m, product->m);
    add_group(out, p, " n", product->n_n, product->n);
    add_group(out, p, " k", product->n_k, product->k);
    md_strbuf_add(out, product->look_up ? ", grouped" : product->guard ? ", k with bounds" : "");
    bool has_epilogue = s->n_stores > 1 || s->store[0].value->kind != MD_FX_REF;
    md_strbuf_add(out, has_epilogue ? ", with epilogue" : "");
}

static void describe_scan(md_strbuf *out, const md_st_program *p, const md_st_stage *s)
{
    md_strbuf_printf(out, "scan over %s: %s%s%s", p->index[s->axis].name, md_fx_op_text(s->scan.op),
                     s->scan.exclusive ? ", exclusive" : "", s->scan.reverse ? ", reverse" : "");
}

static void describe_nest(md_strbuf *out, const md_st_program *p, const md_st_stage *s)
{
    const int32_t n = s->n_outer + (s->axis >= 0);
    (void)p;
    md_strbuf_printf(out, "nest over %d ind%s", n, n == 1 ? "ex" : "ices");
}

static void add_parts(md_strbuf *out, const md_st_stage *s)
{
    for (int32_t i = 0; i < s->n_parts; i++)
        md_strbuf_printf(out, "%s %d", i > 0 ? "," : "", (int)s->part[i]);
}

static void describe_chain(md_strbuf *out, const md_st_program *p, const md_st_stage *s)
{
    const md_st_chain *c = s->chain;
    md_strbuf_add(out, c->pairs ? "pairs of" : "chain of");
    add_parts(out, s);
    if (c->n_batch > 0)
        add_group(out, p, " batch", c->n_batch, c->batch);
    add_group(out, p, " rows", c->n_rows, c->rows);
    add_group(out, p, " keys", 1, &s->axis);
    add_group(out, p, " depth", c->n_depth, c->depth);
    add_group(out, p, " columns", c->n_columns, c->columns);
    if (c->share > 1)
        md_strbuf_printf(out, ", %d of %s share keys", (int)c->share, p->index[c->share_index].name);
}

void md_st_describe(md_strbuf *out, const md_st_program *program, int32_t stage)
{
    static void (*const fn[])(md_strbuf *, const md_st_program *, const md_st_stage *) = {
        [MD_ST_POINTWISE] = describe_pointwise, [MD_ST_ROW] = describe_row,   [MD_ST_PRODUCT] = describe_product,
        [MD_ST_SCAN] = describe_scan,           [MD_ST_NEST] = describe_nest, [MD_ST_CHAIN] = describe_chain};
    const md_st_stage *s = &program->stage[stage];
    fn[s->kind](out, program, s);
    if (s->kind == MD_ST_ROW && s->n_stores > 1)
        md_strbuf_printf(out, ", %d stores", s->n_stores);
    md_strbuf_add(out, s->has_gather ? ", gather" : "");
    md_strbuf_add(out, s->has_duplicates ? ", scatter that accumulates" : s->has_scatter ? ", scatter" : "");
    if (s->kind == MD_ST_PRODUCT && s->n_parts > 0) {
        md_strbuf_add(out, ", or with axes moved by");
        add_parts(out, s);
    }
}

/* ---- work ---- */

typedef struct counter {
    const md_st_program *program;
    const int64_t *size;
    double ops;
} counter;

static double size_of(const md_st_program *p, int32_t n, const int32_t *index, const int64_t *size)
{
    double points = 1;
    for (int32_t i = 0; i < n; i++)
        points *= (double)md_st_size(p, index[i], size);
    return points;
}

/* Every arithmetic operation on reals counts as one. Reductions inside count their own points, once per value. */
static bool count_ops(void *user, const md_fx_node *node)
{
    counter *c = user;
    if (node->kind == MD_FX_OP && node->op != MD_FX_WHERE && md_dtype_is_real(node->arg[0]->type))
        c->ops += 1;
    if (node->kind == MD_FX_REDUCE || node->kind == MD_FX_SCAN) {
        counter inner = {.program = c->program, .size = c->size};
        (void)md_fx_visit(node->arg[0], count_ops, &inner);
        c->ops += (inner.ops + 1) * size_of(c->program, node->n_bound, node->bound, c->size) - inner.ops;
    }
    return true;
}

static double ops_of(const md_st_program *p, const md_fx_node *node, const int64_t *size)
{
    counter c = {.program = p, .size = size};
    (void)md_fx_visit(node, count_ops, &c);
    return c.ops;
}

/* Operations of a stage's expressions: of each row and each point. */
typedef struct stage_ops {
    double rows, elements;
} stage_ops;

/* What a chain makes of each pair of a row and a key. */
enum { MOST_OF_PAIR = 2 + MD_ST_MAX_TERMS + MD_ST_MAX_PAIR_SUMS };
static int32_t list_of_pair(const md_fx_node *out[MOST_OF_PAIR], const md_st_chain *c)
{
    int32_t n = 0;
    out[n++] = c->score;
    out[n++] = c->weight;
    for (int32_t i = 0; i < c->n_terms; i++)
        out[n++] = c->term[i];
    for (int32_t i = 0; c->pairs && i < c->pairs->n_sums; i++)
        out[n++] = c->pairs->sum[i].weight;
    return n;
}

static stage_ops ops_of_chain(const md_st_program *p, const md_st_chain *c, const int64_t *size)
{
    const md_fx_node *node[MOST_OF_PAIR];
    const int32_t n = list_of_pair(node, c);
    stage_ops sum = {.elements = 2 + c->n_terms};
    for (int32_t i = 0; i < n; i++)
        sum.elements += ops_of(p, node[i], size);
    return sum;
}

static stage_ops ops_of_stage(const md_st_program *p, const md_st_stage *s, const int64_t *size)
{
    stage_ops sum = {0};
    if (s->kind == MD_ST_CHAIN)
        return ops_of_chain(p, s->chain, size);
    for (int32_t i = 0; i < s->n_stores; i++)
        *(s->store[i].per_row ? &sum.rows : &sum.elements) += ops_of(p, s->store[i].value, size);
    for (int32_t i = 0; i < s->row.n_reductions; i++)
        sum.elements += 1 + ops_of(p, s->row.reduction[i].body, size);
    if (s->kind == MD_ST_SCAN)
        sum.elements += 1 + ops_of(p, s->scan.body, size);
    return sum;
}

/* Operations of an element, which depend on sizes only if reductions are inside. */
typedef struct known_ops {
    bool depends;
    stage_ops sum;
} known_ops;

static bool has_inner(const md_fx_node *node)
{
    return md_fx_has_kind(node, MD_FX_REDUCE) || md_fx_has_kind(node, MD_FX_SCAN);
}

static void make_known_ops(void *result, const md_st_program *p, int32_t stage, const void *size)
{
    const md_st_stage *s = &p->stage[stage];
    known_ops *out = result;
    *out = (known_ops){.depends = s->kind == MD_ST_SCAN && has_inner(s->scan.body)};
    for (int32_t i = 0; i < s->n_stores; i++)
        out->depends |= has_inner(s->store[i].value);
    for (int32_t i = 0; i < s->row.n_reductions; i++)
        out->depends |= has_inner(s->row.reduction[i].body);
    const md_fx_node *node[MOST_OF_PAIR];
    const int32_t n = s->kind == MD_ST_CHAIN ? list_of_pair(node, s->chain) : 0;
    for (int32_t i = 0; i < n; i++)
        out->depends |= has_inner(node[i]);
    if (!out->depends)
        out->sum = ops_of_stage(p, s, size);
}

int32_t md_st_chain_lengths(int32_t out[MD_ST_MAX_LENGTHS], const md_st_chain *c)
{
    int32_t n = 0;
    for (int32_t i = 0; i < c->n_depth; i++)
        out[n++] = c->depth[i];
    for (int32_t i = 0; i < c->n_columns; i++)
        out[n++] = c->columns[i];
    for (int32_t i = 0; c->pairs && i < c->pairs->n_operands; i++)
        out[n++] = c->pairs->operand[i].inner;
    for (int32_t i = 0; c->pairs && i < c->pairs->n_sums; i++)
        out[n++] = c->pairs->sum[i].column;
    return n;
}

double md_st_pair_terms(const md_st_program *program, const md_st_pairs *pairs, const int64_t *size)
{
    double terms = 0;
    for (int32_t i = 0; i < pairs->n_products; i++)
        terms += (double)md_st_size(program, pairs->product[i].depth, size);
    for (int32_t i = 0; i < pairs->n_sums; i++)
        terms += (double)md_st_size(program, pairs->sum[i].column, size);
    return terms;
}

static double chain_flops(const md_st_program *p, int32_t stage, double ops, const int64_t *size)
{
    const md_st_chain *c = p->stage[stage].chain;
    md_st_chain_sizes n;
    md_st_chain_measure(&n, p, stage, size);
    double products = (double)n.depth + (double)n.columns;
    if (c->pairs)
        products = md_st_pair_terms(p, c->pairs, size);
    return (double)n.batches * (double)n.rows * (double)n.keys * md_st_chain_part(p, stage, size) *
           (2 * products + ops);
}

static double flops_of(const md_st_program *p, int32_t stage, const int64_t *size)
{
    const md_st_stage *s = &p->stage[stage];
    double rows = size_of(p, s->n_outer, s->outer, size);
    double elements = s->axis >= 0 ? rows * (double)md_st_size(p, s->axis, size) : rows;
    const md_st_product *product = &s->product;
    known_ops ops;
    md_st_know(&ops, p, stage,
               &(md_st_fact){.which = MD_ST_KNOWN_WORK, .n_bytes = sizeof ops, .make = make_known_ops, .user = size});
    if (ops.depends)
        ops.sum = ops_of_stage(p, s, size);
    if (s->kind == MD_ST_CHAIN)
        return chain_flops(p, stage, ops.sum.elements, size);
    double sum = rows * ops.sum.rows + elements * ops.sum.elements;
    for (int32_t i = 0; i < product->n_products; i++)
        sum += rows * size_of(p, product->n_k, product->k, size) * 2;
    return sum;
}

/* No more of a tensor is touched than its axes' dims have; an axis with a dim of its own is counted by what indexes
 * it. */
static double tensor_bytes(const md_st_program *p, int32_t tensor, const int64_t *size)
{
    const md_fx_tensor *t = &p->formula->tensor[tensor];
    double bytes = md_dtype_bytes(t->dtype);
    for (int32_t i = 0; i < t->rank; i++)
        bytes *= fmax(1, (double)size[t->dim[i]]);
    return bytes;
}

/* A gather or scatter touches at most an element a point. */
static double touched_bytes(const md_st_program *p, const md_st_stage *s, int32_t i, const int64_t *size)
{
    double bytes = tensor_bytes(p, s->tensor[i], size);
    if (s->has_gather || s->has_scatter) {
        double points = size_of(p, s->n_outer, s->outer, size) * md_dtype_bytes(p->formula->tensor[s->tensor[i]].dtype);
        if (s->axis >= 0)
            points *= (double)md_st_size(p, s->axis, size);
        if (s->kind == MD_ST_POINTWISE)
            bytes = fmin(bytes, points);
    }
    return bytes;
}

void md_st_work(double *flops, double *bytes, const md_st_program *program, int32_t stage, const int64_t *size)
{
    const md_st_stage *s = &program->stage[stage];
    *flops = flops_of(program, stage, size);
    *bytes = 0;
    for (int32_t i = 0; i < s->n_tensors; i++)
        *bytes += touched_bytes(program, s, i, size);
}
