/* Products with operands of few bits: an operand is (load - zero) * scale, and runs of K share zero and scale. Tensor
 * cores multiply what is loaded; zero and scale come to the sum of a run. */
#include "base/dtype.h"
#include "base/status.h"
#include "codegen/product/product.h"

#include <inttypes.h>

/* A shortest run is a step of the kernel (kernels/cuda/gemm_quantised.cu). */
enum { SHORTEST_RUN = 32, MOST_BITS = 16 };

int32_t md_cg_common_divisor(int64_t a, int64_t b)
{
    while (b != 0) {
        const int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return (int32_t)a;
}

/* True if the node is the same for all steps of K in a run, whose length becomes shorter where it must. */
static bool is_shared(const md_st_product *product, const md_fx_node *node, int32_t *run)
{
    if (node->kind == MD_FX_REDUCE || node->kind == MD_FX_SCAN)
        return false;
    for (int32_t i = 0; i < product->n_k; i++) {
        if (md_fx_is_index(node, product->k[i]))
            return false;
        const bool is_part = node->kind == MD_FX_OP && node->op == MD_FX_FLOORDIV &&
                             md_fx_is_index(node->arg[0], product->k[i]) && node->arg[1]->kind == MD_FX_CONST;
        if (!is_part)
            continue;
        const int64_t steps = node->arg[1]->type == MD_I64 ? node->arg[1]->integer : 0;
        *run = steps > 0 ? md_cg_common_divisor(*run, steps) : 0;
        return product->n_k == 1 && *run >= SHORTEST_RUN;
    }
    for (int32_t i = 0; i < node->n_args; i++)
        if (!is_shared(product, node->arg[i], run))
            return false;
    return true;
}

/* True if every value of the dtype is one of another. */
static bool keeps_values(md_dtype from, md_dtype to)
{
    const int32_t bits = md_dtype_bits(from);
    if (md_dtype_is_real(from))
        return md_dtype_is_real(to) && md_dtype_bits(to) > bits;
    if (md_dtype_is_real(to))
        return bits <= 8 && md_dtype_bits(to) >= 16;
    return md_dtype_bits(to) > bits && to != MD_BOOL && (md_dtype_is_unsigned(from) || !md_dtype_is_unsigned(to));
}

/* A load of a matrix without the casts around it that keep its values; NULL: it is none. */
static const md_fx_node *matrix_of(const md_cg_product *p, const md_fx_node *node)
{
    const md_fx_node *load = node;
    while (load->kind == MD_FX_CAST)
        load = load->arg[0];
    if (load->kind != MD_FX_LOAD || md_dtype_bits(md_cg_product_dtype(p, load)) > MOST_BITS)
        return NULL;
    for (int32_t i = 0; i < load->n_args; i++)
        if (load->arg[i]->kind != MD_FX_INDEX && !md_cg_product_is_share(p, load->arg[i]))
            return NULL;
    for (const md_fx_node *cast = node; cast != load; cast = cast->arg[0])
        if (cast->to != cast->arg[0]->type && !keeps_values(md_cg_product_dtype(p, load), cast->to))
            return NULL;
    return load;
}

static const md_fx_node *without_cast(const md_fx_node *node)
{
    return node->kind == MD_FX_CAST && md_dtype_is_real(node->to) && node->type == node->arg[0]->type ? node->arg[0]
                                                                                                      : node;
}

static bool add_scale(md_cg_quantised *q, const md_fx_node *node, bool is_divisor)
{
    if (q->n_scales == MD_COUNT(q->scale))
        return false;
    q->scale[q->n_scales] = node;
    q->is_divisor[q->n_scales++] = is_divisor;
    return true;
}

/* Takes scales off a node; what is left, or NULL. */
static const md_fx_node *unscaled(md_cg_quantised *q, const md_st_product *product, const md_fx_node *node)
{
    while (node->kind == MD_FX_OP && (node->op == MD_FX_MUL || node->op == MD_FX_DIV)) {
        int32_t run = q->run;
        const bool is_divisor = node->op == MD_FX_DIV;
        const bool is_last = is_shared(product, node->arg[1], &run);
        if (!is_last) {
            run = q->run;
            if (is_divisor || !is_shared(product, node->arg[0], &run))
                return NULL;
        }
        q->run = run;
        if (!add_scale(q, node->arg[is_last], is_divisor))
            return NULL;
        node = node->arg[!is_last];
    }
    return node;
}

static bool take_operand(md_cg_quantised *q, const md_cg_product *p, int32_t operand)
{
    const md_st_product *product = md_cg_product_stage(p);
    *q = (md_cg_quantised){.run = MD_CG_LONGEST_RUN};
    const md_fx_node *node = unscaled(q, product, p->operand[operand]);
    if (!node)
        return false;
    if ((q->load = matrix_of(p, node)) != NULL)
        return true;
    node = without_cast(node);
    if (node->kind != MD_FX_OP || (node->op != MD_FX_SUB && node->op != MD_FX_ADD) || operand == MD_CG_A ||
        !is_shared(product, node->arg[1], &q->run))
        return false;
    q->zero = node->arg[1];
    q->is_added = node->op == MD_FX_ADD;
    q->load = matrix_of(p, node->arg[0]);
    return q->load != NULL;
}

/* In what the loads are multiplied: I32, BF16 or F16; F32: tensor cores do not take them together. */
static md_dtype multiplied_in(const md_cg_product *p, const md_cg_quantised *q)
{
    bool has_bf16 = false, has_f16 = false, has_real = false, has_few_bits = false;
    for (int32_t o = 0; o <= p->n_products; o++) {
        const md_dtype dtype = md_cg_product_dtype(p, q[o].load);
        if (dtype == MD_BOOL || (!md_dtype_is_real(dtype) && md_dtype_bits(dtype) > 8) ||
            (o > MD_CG_B && dtype != md_cg_product_dtype(p, q[MD_CG_B].load)))
            return MD_F32;
        has_bf16 |= dtype == MD_BF16;
        has_f16 |= dtype == MD_F16;
        has_real |= md_dtype_is_real(dtype);
        has_few_bits |= md_dtype_bits(dtype) <= 8;
    }
    if (!has_few_bits || (has_bf16 && has_f16))
        return MD_F32;
    return !has_real ? MD_I32 : has_bf16 ? MD_BF16 : MD_F16;
}

static md_cg_along along_of(const md_cg_product *p, const md_fx_node *load, int32_t operand)
{
    const md_st_product *product = md_cg_product_stage(p);
    const md_fx_node *last = load->n_args > 0 ? load->arg[load->n_args - 1] : NULL;
    int32_t n_rows;
    const int32_t *rows = md_cg_product_group(&n_rows, p, operand);
    if (last && product->n_k > 0 && md_fx_is_index(last, product->k[product->n_k - 1]))
        return MD_CG_ALONG_DEPTH;
    return last && n_rows > 0 && md_fx_is_index(last, rows[n_rows - 1]) ? MD_CG_ALONG_ROWS : MD_CG_ALONG_NEITHER;
}

/* The largest magnitude of an integer. */
static double magnitude(md_dtype dtype)
{
    return (double)(INT64_C(1) << (md_dtype_bits(dtype) - !md_dtype_is_unsigned(dtype)));
}

static void settle(md_cg_quantised_product *out, md_cg_product *p)
{
    out->run = MD_CG_LONGEST_RUN;
    for (int32_t o = 0; o <= p->n_products; o++) {
        md_cg_quantised *q = &out->operand[o];
        out->run = md_cg_common_divisor(out->run, q->run);
        out->has_scale[o > MD_CG_A] |= q->n_scales > 0;
        out->has_zero |= q->zero != NULL;
        p->operand[o] = p->load[o] = q->load;
        p->row_load[o] = p->window[o] = NULL;
        p->along[o] = along_of(p, q->load, o);
    }
    if (out->type == MD_I32 && !md_cg_quantised_has_qparams(out)) {
        const double most =
            magnitude(md_cg_product_dtype(p, p->load[MD_CG_A])) * magnitude(md_cg_product_dtype(p, p->load[MD_CG_B]));
        out->most_depth = (int32_t)(INT32_MAX / most);
        p->type = p->type == MD_F64 ? MD_I64 : p->type;
    }
}

bool md_cg_quantised_of(md_cg_quantised_product *out, md_cg_product *p)
{
    *out = (md_cg_quantised_product){.most_depth = INT32_MAX};
    if (p->is_grouped)
        return false;
    for (int32_t o = 0; o <= p->n_products; o++)
        if (!take_operand(&out->operand[o], p, o))
            return false;
    out->type = multiplied_in(p, out->operand);
    settle(out, p);
    return out->type != MD_F32 && (p->type == MD_F32 || (out->type == MD_I32 && !md_cg_quantised_has_qparams(out)));
}

const md_fx_node *md_cg_quantised_qparam(const md_cg_quantised *q, bool is_zero)
{
    const bool is_lone = is_zero ? q->zero && !q->is_added : q->n_scales == 1 && !q->is_divisor[0];
    const md_fx_node *load = is_zero ? q->zero : q->scale[0];
    while (is_lone && load->kind == MD_FX_CAST && load->type == load->arg[0]->type)
        load = load->arg[0];
    if (!is_lone || load->kind != MD_FX_LOAD || load->n_args == 0 || load->type != MD_F32)
        return NULL;
    for (int32_t i = 0; i < load->n_args; i++)
        if (md_fx_has_kind(load->arg[i], MD_FX_LOAD)) /* a look-up is checked where the value is loaded */
            return NULL;
    const md_fx_node *last = load->arg[load->n_args - 1];
    return last->kind == MD_FX_OP && last->op == MD_FX_FLOORDIV && last->arg[1]->kind == MD_FX_CONST &&
                   last->arg[1]->integer == q->run
               ? load
               : NULL;
}

/* ---- Text */
static const char *print_qparam(md_cg *cg, const md_fx_node *node)
{
    const char *name = md_cg_value(cg, node, NULL);
    return name ? md_cg_convert(cg, name, node->type, MD_F32, true) : NULL;
}

static void print_scales(md_cg *cg, md_strbuf *out, const md_cg_quantised *q)
{
    md_strbuf_add(out, "    float qparam = 1;\n");
    for (int32_t i = 0; i < q->n_scales; i++) {
        const char *name = print_qparam(cg, q->scale[i]);
        if (name)
            md_strbuf_printf(out, "    qparam = qparam %c %s;\n", q->is_divisor[i] ? '/' : '*', name);
    }
    md_strbuf_add(out, "    return qparam;\n");
}

static void print_zero(md_cg *cg, md_strbuf *out, const md_cg_quantised *q)
{
    const char *name = q->zero ? print_qparam(cg, q->zero) : "0.0f";
    md_strbuf_printf(out, "    return %s%s;\n", q->is_added ? "-" : "", name ? name : "0");
}

static void print_place(md_cg *cg, md_strbuf *out, const md_cg_product *p, const md_fx_node *load)
{
    const char *condition = NULL, *offset = md_cg_offset(cg, load, &condition);
    md_strbuf_printf(out, "    return (const char *)p->t%" PRId32 " + (%s) * %d;\n", load->id, offset ? offset : "0",
                     (int)md_dtype_size(md_cg_product_dtype(p, load)));
}

/* What is printed of a qparam: its value, or where it lies. */
typedef struct qparam {
    int32_t operand;
    bool is_zero;
    const md_fx_node *load; /* NULL: the value is printed */
} qparam;

static md_status print_function(md_strbuf *defines, md_strbuf *out, const md_cg_product *p, const qparam *m)
{
    const md_cg_quantised *q = &p->quantised->operand[m->operand];
    const int32_t operand = m->operand;
    const md_st_product *product = md_cg_product_stage(p);
    int32_t n, n_batch;
    const int32_t *rows = md_cg_product_group(&n, p, operand), *batch = md_cg_product_batch(&n_batch, p, operand);
    md_cg *cg = md_cg_create(&(md_cg_options){
        .program = p->program, .stage = p->stage, .dialect = p->dialect, .lane = -1, .access = MD_CG_STRIDED});
    if (!cg)
        return md_fail_memory();
    md_strbuf_printf(out,
                     "MD_INLINE %s md_%s_%s%" PRId32
                     "(const md_params *p, int64_t batch, int64_t row, int64_t k)\n{\n    enum { md_n = 1 };\n"
                     "    (void)md_n;\n",
                     m->load ? "const void *" : "float", m->is_zero ? "zero" : "scale", m->load ? "at_" : "", operand);
    md_cg_print_decode(out, p->program, n_batch, batch, "batch");
    md_cg_print_decode(out, p->program, n, rows, "row");
    md_cg_print_decode(out, p->program, product->n_k, product->k, "k");
    md_cg_begin(cg, out);
    if (m->load)
        print_place(cg, out, p, m->load);
    else if (m->is_zero)
        print_zero(cg, out, q);
    else
        print_scales(cg, out, q);
    md_strbuf_add(out, "}\n");
    md_status status = md_cg_status(cg);
    md_cg_print_uses(cg, defines);
    md_cg_destroy(&cg);
    return status;
}

static md_status print_qparam_functions(md_strbuf *defines, md_strbuf *out, const md_cg_product *p, qparam m)
{
    const md_fx_node *load = md_cg_quantised_qparam(&p->quantised->operand[m.operand], m.is_zero);
    MD_TRY(print_function(defines, out, p, &m));
    if (!load)
        return MD_OK;
    md_strbuf_printf(out,
                     "MD_INLINE bool md_%s_is_unit_%" PRId32 "(const md_params *p)\n{\n    return p->s%" PRId32
                     "_%" PRId32 " == 1;\n}\n",
                     m.is_zero ? "zero" : "scale", m.operand, load->id, load->n_args - 1);
    m.load = load;
    return print_function(defines, out, p, &m);
}

md_status md_cg_quantised_print(md_strbuf *defines, md_strbuf *expr, const md_cg_product *p)
{
    const md_cg_quantised_product *q = p->quantised;
    for (int32_t o = 0; o <= p->n_products; o++) {
        if (q->has_scale[o > MD_CG_A])
            MD_TRY(print_qparam_functions(defines, expr, p, (qparam){.operand = o}));
        if (q->has_zero && o > MD_CG_A)
            MD_TRY(print_qparam_functions(defines, expr, p, (qparam){.operand = o, .is_zero = true}));
    }
    return MD_OK;
}
