/* Plain loops over single elements, for the nest families of both devices. They serve every stage, so that every legal
 * formula runs. */
#include "family/point/point.h"

#include "base/status.h"
#include "codegen/row/scan.h"
#include "codegen/codegen.h"
#include "family/emit.h"

#include <inttypes.h>

typedef struct writer {
    const md_fa_target *target;
    const md_st_stage *stage;
    md_dev_kind dialect;
    md_cg *cg;
    md_strbuf body; /* statements for one outer point */
    const char *ref[MD_ST_MAX_REDUCTIONS]; /* C variables of the results that are known so far */
} writer;

static bool has_inner_axis(const md_st_stage *st)
{
    return st->kind == MD_ST_ROW || st->kind == MD_ST_SCAN;
}

/* Indices of the outer loop: all except the axis of a row or a scan. Returns their number. */
static int32_t outer_of(int32_t out[MD_MAX_RANK * 2 + 1], const md_st_stage *st)
{
    int32_t n = 0;
    for (int32_t i = 0; i < st->n_outer; i++)
        out[n++] = st->outer[i];
    if (st->axis >= 0 && !has_inner_axis(st))
        out[n++] = st->axis;
    return n;
}

static md_dtype ref_type(const md_st_stage *st, int32_t i)
{
    return st->kind == MD_ST_PRODUCT ? st->product.type
           : st->kind == MD_ST_SCAN  ? st->scan.type
                                     : st->row.reduction[i].type;
}

/* Starts a text that may use the results known so far and the number of elements of the row. */
static void begin(writer *w, md_strbuf *text)
{
    md_cg_begin(w->cg, text);
    for (int32_t i = 0; i < MD_ST_MAX_REDUCTIONS; i++)
        if (w->ref[i])
            md_cg_bind_ref(w->cg, i, ref_type(w->stage, i), w->ref[i], true);
    if (w->stage->kind == MD_ST_ROW) {
        char size[32];
        md_fx_node count = {.kind = MD_FX_COUNT, .type = MD_I64};
        md_cg_bind(w->cg, md_cg_keep(w->cg, &count), md_cg_size(size, w->target->program, w->stage->axis), true);
    }
}

/* Prints a reduction with the op, type and operand of `node` over n indices. */
static void print_reduction(writer *w, int32_t ref, md_fx_node node, int32_t n, const int32_t *bound)
{
    node.kind = MD_FX_REDUCE;
    node.n_args = 1;
    node.n_bound = n;
    for (int32_t i = 0; i < n; i++)
        node.bound[i] = bound[i];
    const md_fx_node *kept = md_cg_keep(w->cg, &node);
    begin(w, &w->body);
    w->ref[ref] = kept ? md_cg_value(w->cg, kept, NULL) : NULL;
}

static void print_stores(writer *w, md_strbuf *text, bool per_row)
{
    const char *value[MD_ST_MAX_STORES] = {NULL};
    const md_st_stage *st = w->stage;
    begin(w, text);
    for (int32_t i = 0; i < st->n_stores; i++)
        if (st->store[i].per_row == per_row)
            value[i] = md_cg_value(w->cg, st->store[i].value, NULL);
    for (int32_t i = 0; i < st->n_stores; i++)
        if (st->store[i].per_row == per_row)
            md_cg_store(w->cg, &st->store[i], value[i], true);
}

static void print_row(writer *w)
{
    const md_st_row *row = &w->stage->row;
    char size[32];
    int32_t x = w->stage->axis;
    for (int32_t level = 0; level < row->n_levels; level++)
        for (int32_t i = 0; i < row->n_reductions; i++)
            if (row->reduction[i].level == level)
                print_reduction(w, i,
                                (md_fx_node){.op = row->reduction[i].op,
                                             .type = row->reduction[i].type,
                                             .arg = &row->reduction[i].body},
                                1, &x);
    if (row->has_elements) {
        md_cg_size(size, w->target->program, x);
        md_strbuf_printf(&w->body, "for (int64_t x%" PRId32 " = 0; x%" PRId32 " < %s; x%" PRId32 "++) {\n", x, x, size,
                         x);
        print_stores(w, &w->body, false);
        md_strbuf_add(&w->body, "}\n");
    }
    /* Results of the row are stored after the elements: an output may be an input, which must not change while the row
     * is read. */
    print_stores(w, &w->body, true);
}

/* A term of a sum whose K has bounds. */
static const md_fx_node *under_guard(writer *w, const md_fx_node *term)
{
    const md_fx_node *guard = w->stage->product.guard;
    if (!guard || !term)
        return term;
    const md_fx_node none = {.kind = MD_FX_CONST, .type = term->type}, *zero = md_cg_keep(w->cg, &none);
    const md_fx_node *arg[3] = {guard, term, zero};
    const md_fx_node where = {.kind = MD_FX_OP, .op = MD_FX_WHERE, .type = term->type, .n_args = 3, .arg = arg};
    return zero ? md_cg_keep(w->cg, &where) : NULL;
}

static void print_product(writer *w)
{
    const md_st_product *product = &w->stage->product;
    for (int32_t i = 0; i < product->n_products; i++) {
        const md_fx_node *arg[2] = {product->a[i], product->b[i]};
        md_fx_node times = {.kind = MD_FX_OP, .op = MD_FX_MUL, .type = product->type, .n_args = 2, .arg = arg};
        const md_fx_node *body = under_guard(w, md_cg_keep(w->cg, &times));
        if (body)
            print_reduction(w, i, (md_fx_node){.op = MD_FX_R_SUM, .type = product->type, .arg = &body}, product->n_k,
                            product->k);
    }
    print_stores(w, &w->body, false);
}

/* a * total + b, or b alone where the recurrence starts anew; NULL if the text failed. */
static const char *recurrence_step(writer *w, md_dtype carried)
{
    const md_fx_node *step = w->stage->scan.body;
    const char *arg[3] = {NULL};
    for (int32_t i = 0; i < step->n_args; i++) {
        arg[i] = md_cg_value(w->cg, step->arg[i], NULL);
        if (arg[i] && i < 2)
            arg[i] = md_cg_convert(w->cg, arg[i], step->type, carried, true);
        if (!arg[i])
            return NULL;
    }
    md_strbuf_printf(&w->body, "const %s next = ", md_cg_scalar_type(carried));
    if (w->stage->scan.op != MD_FX_S_LINEAR) {
        const bool is_max = w->stage->scan.op == MD_FX_S_MAX_PLUS;
        const char *none = md_cg_recur_neutral(w->stage->scan.op, true, false), *s = md_cg_suffix(carried, true);
        md_strbuf_printf(&w->body, "md_%s_%s(%s == %s || total == %s ? %s : %s + total, %s);\n", is_max ? "max" : "min",
                         s, arg[0], none, none, none, arg[0], arg[1]);
        return "next";
    }
    if (arg[2])
        md_strbuf_printf(&w->body, "%s ? %s : ", arg[2], arg[1]);
    md_strbuf_printf(&w->body, "md_fma_%s(%s, total, %s);\n", md_cg_suffix(carried, true), arg[0], arg[1]);
    return "next";
}

static const char *scan_operand(writer *w, md_dtype carried)
{
    const md_st_scan *scan = &w->stage->scan;
    if (md_fx_is_recurrence(scan->op))
        return recurrence_step(w, carried);
    const char *value = md_cg_value(w->cg, scan->body, NULL);
    return md_cg_convert(w->cg, value, scan->body->type, scan->type, true);
}

static void print_scan_step(writer *w, const char *value)
{
    const md_st_scan *scan = &w->stage->scan;
    switch (scan->op) {
    case MD_FX_S_LINEAR:
    case MD_FX_S_MAX_PLUS:
    case MD_FX_S_MIN_PLUS:
        md_strbuf_printf(&w->body, "total = %s;\n", value);
        break;
    case MD_FX_S_SUM:
        md_strbuf_printf(&w->body, "total += %s;\n", value);
        break;
    case MD_FX_S_PROD:
        md_strbuf_printf(&w->body, "total *= %s;\n", value);
        break;
    default:
        md_strbuf_printf(&w->body, "total = md_%s_%s(total, %s);\n", scan->op == MD_FX_S_MAX ? "max" : "min",
                         md_cg_suffix(scan->type, true), value);
    }
}

/* Prints a running total along the row. */
static void print_scan(writer *w)
{
    const md_st_scan *scan = &w->stage->scan;
    char size[32];
    int32_t x = w->stage->axis;
    bool is_wide = scan->type == MD_F32 && scan->op != MD_FX_S_MAX && scan->op != MD_FX_S_MIN;
    const md_dtype carried = is_wide ? MD_F64 : scan->type;
    const char *type = md_cg_scalar_type(carried);
    md_cg_size(size, w->target->program, x);
    md_strbuf_printf(&w->body, "%s total = %s;\nfor (int64_t step = 0; step < %s; step++) {\n", type,
                     md_cg_start_text(scan->op, scan->type), size);
    md_strbuf_printf(&w->body, "const int64_t x%" PRId32 " = ", x);
    md_strbuf_printf(&w->body, scan->reverse ? "%s - 1 - step;\n" : "step;\n", size);
    begin(w, &w->body);
    const char *value = scan_operand(w, carried);
    if (!value)
        return;
    if (scan->exclusive)
        md_strbuf_printf(&w->body, "const %s scanned = (%s)total;\n", md_cg_scalar_type(scan->type),
                         md_cg_scalar_type(scan->type));
    print_scan_step(w, value);
    if (!scan->exclusive)
        md_strbuf_printf(&w->body, "const %s scanned = (%s)total;\n", md_cg_scalar_type(scan->type),
                         md_cg_scalar_type(scan->type));
    w->ref[0] = "scanned";
    print_stores(w, &w->body, false);
    md_strbuf_add(&w->body, "}\n");
}

static void print_point(writer *w)
{
    switch (w->stage->kind) {
    case MD_ST_ROW:
        print_row(w);
        break;
    case MD_ST_PRODUCT:
        print_product(w);
        break;
    case MD_ST_SCAN:
        print_scan(w);
        break;
    case MD_ST_POINTWISE:
    case MD_ST_NEST:
    case MD_ST_CHAIN: /* no nest serves it */
        print_stores(w, &w->body, false);
        break;
    }
}

static md_status assemble(md_kn_launch_source *launch, const writer *w)
{
    int32_t outer[MD_MAX_RANK * 2 + 1], n = outer_of(outer, w->stage);
    const md_st_program *program = w->target->program;
    md_strbuf defines = {0}, expr = {0};
    bool is_cuda = w->dialect == MD_DEV_CUDA;
    md_strbuf_add(&defines, "#define MD_VL 4\n");
    if (is_cuda)
        md_strbuf_add(&defines, w->stage->has_duplicates ? "#define MD_ALLOW_STACK 1\n#define MD_IN_ORDER 1\n"
                                                         : "#define MD_ALLOW_STACK 1\n");
    md_cg_print_uses(w->cg, &defines);
    md_cg_print_params(&expr, launch->param, launch->n_params);
    md_strbuf_add(&expr, "MD_INLINE int64_t md_points(const md_params *p)\n{\n(void)p;\nreturn ");
    md_cg_print_points(&expr, program, n, outer);
    md_strbuf_add(&expr, ";\n}\nstatic void md_nest(const md_params *p, int64_t point, int64_t end)\n{\n");
    md_cg_print_decode(&expr, program, n, outer, "point");
    md_strbuf_add(&expr, "for (; point < end; point++) {\n");
    md_strbuf_add(&expr, md_strbuf_text(&w->body));
    md_cg_print_advance(&expr, program, n, outer);
    md_strbuf_add(&expr, "}\n}\n");
    return md_fa_end_launch(w->body.failed ? md_fail_memory() : MD_OK, launch, w->dialect,
                            is_cuda ? "cuda/nest.cu" : "host/nest.c", &defines, &expr);
}

md_status md_fa_nest_emit(md_kn_source *out, const md_fa_target *target, md_dev_kind dialect)
{
    writer w = {.target = target, .stage = md_fa_stage(target), .dialect = dialect};
    md_cg_options options = {
        .program = target->program, .stage = target->stage, .dialect = dialect, .lane = -1, .access = MD_CG_STRIDED};
    *out = (md_kn_source){.n_launches = 1};
    md_kn_launch_source *launch = &out->launch[0];
    MD_TRY(md_fa_begin_launch(launch, target));
    if (dialect == MD_DEV_HOST)
        launch->param[launch->n_params++] = (md_kn_param){.kind = MD_KN_BLOCKS};
    w.cg = md_cg_create(&options);
    if (!w.cg)
        return MD_OUT_OF_MEMORY;
    print_point(&w);
    md_status status = md_cg_status(w.cg);
    if (status == MD_OK)
        status = assemble(launch, &w);
    md_cg_destroy(&w.cg);
    md_strbuf_finish(&w.body);
    if (status != MD_OK)
        md_kn_source_finish(out);
    return status;
}

/* A chain's parts are served one by one. */
bool md_fa_nest_applies(const md_fa_target *target)
{
    return md_fa_stage(target)->kind != MD_ST_CHAIN;
}

bool md_fa_nest_legal(const md_fa_target *target, const md_fa_config *config, const int64_t *size)
{
    (void)target, (void)config, (void)size;
    return true;
}

int64_t md_fa_nest_points(const md_fa_target *target, const int64_t *size)
{
    const md_st_stage *st = md_fa_stage(target);
    int32_t outer[MD_MAX_RANK * 2 + 1], n = outer_of(outer, st);
    return md_st_points(target->program, n, outer, size);
}

double md_fa_nest_steps(const md_fa_target *target, const int64_t *size)
{
    double flops = 0, bytes = 0, points = (double)md_fa_nest_points(target, size);
    md_st_work(&flops, &bytes, target->program, target->stage, size);
    return points > 0 ? 1 + flops / points : 1;
}
