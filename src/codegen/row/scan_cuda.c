/* The functions of a scan program on a GPU. */
#include "codegen/row/scan_cuda.h"

#include "base/status.h"

#include <inttypes.h>

/* By type f32, f64, i64 (which wraps; C++ of GPUs is compiled without -fwrapv), bool. */
typedef struct scan_op {
    const char *combine[4];
    const char *identity[4];
} scan_op;

static const scan_op *op_of(md_fx_op op)
{
    static const scan_op table[] = {
        {{"((a) + (b))", "((a) + (b))", "(int64_t)((uint64_t)(a) + (uint64_t)(b))", "((a) | (b))"},
         {"0.0f", "0.0", "INT64_C(0)", "0"}},
        {{"((a) * (b))", "((a) * (b))", "(int64_t)((uint64_t)(a) * (uint64_t)(b))", "((a) & (b))"},
         {"1.0f", "1.0", "INT64_C(1)", "1"}},
        {{"md_max_sf(a, b)", "md_max_sd(a, b)", "md_max_si(a, b)", "((a) | (b))"},
         {"(-MD_INF_F)", "(-MD_INF_D)", "(-INT64_C(9223372036854775807) - 1)", "0"}},
        {{"md_min_sf(a, b)", "md_min_sd(a, b)", "md_min_si(a, b)", "((a) & (b))"},
         {"MD_INF_F", "MD_INF_D", "INT64_C(9223372036854775807)", "1"}},
    };
    return &table[op == MD_FX_S_SUM ? 0 : op == MD_FX_S_PROD ? 1 : op == MD_FX_S_MAX ? 2 : 3];
}

static int type_number(md_dtype type)
{
    return type == MD_F32 ? 0 : type == MD_F64 ? 1 : type == MD_I64 ? 2 : 3;
}

/* cuda/recur.h defines md_step and what combines two of them. */
static void print_recurrence_types(md_strbuf *out, const md_st_scan *scan)
{
    const md_dtype carried = scan->type == MD_F32 ? MD_F64 : scan->type;
    const char *one = md_cg_scalar_type(scan->type), *total = md_cg_scalar_type(carried);
    const char *a = md_cg_recur_neutral(scan->op, false, true), *b = md_cg_recur_neutral(scan->op, true, true);
    md_strbuf_printf(out, "#define MD_VALUE md_step<%s>\n#define MD_RESULT %s\n#define MD_RESULT_OF(v) ((v).b)\n",
                     md_cg_lane_type(scan->type), md_cg_lane_type(scan->type));
    md_strbuf_printf(out, "#define MD_ONE md_step<%s>\n#define MD_IDENTITY (md_step<%s>(%s, %s))\n", one, one, a, b);
    md_strbuf_printf(out, "#define MD_TOTAL md_step<%s>\n#define MD_TOTAL_IDENTITY (md_step<%s>(%s, %s))\n", total,
                     total, a, b);
    md_strbuf_add(out, "#define MD_OP(x, y) md_step_then(x, y)\n#define MD_OP_TOTAL(x, y) md_step_then(x, y)\n");
    md_strbuf_printf(out, "#define MD_CARRY %d\n#define MD_REVERSE %d\n#define MD_EXCLUSIVE %d\n",
                     scan->type == MD_F32 ? 3 : 0, scan->reverse, scan->exclusive);
    const char *s = md_cg_suffix(scan->type, false);
    md_strbuf_printf(out, "#define MD_SPLAT(x) MD_VALUE(md_splat_%s((x).a), md_splat_%s((x).b))\n", s, s);
    md_strbuf_add(out, "#define MD_GET(v, k) MD_ONE((v).a[k], (v).b[k])\n"
                       "#define MD_SET(v, k, x) md_step_set(v, k, x)\n");
}

static void print_types(md_strbuf *out, const md_st_scan *scan)
{
    if (md_fx_is_recurrence(scan->op)) {
        print_recurrence_types(out, scan);
        return;
    }
    const scan_op *op = op_of(scan->op);
    bool is_wide = scan->type == MD_F32 && (scan->op == MD_FX_S_SUM || scan->op == MD_FX_S_PROD);
    md_dtype carried = is_wide ? MD_F64 : scan->type;
    int i = type_number(scan->type), c = type_number(carried);
    md_strbuf_add(out, "#define MD_RESULT MD_VALUE\n#define MD_RESULT_OF(v) (v)\n");
    md_strbuf_printf(out, "#define MD_VALUE %s\n#define MD_ONE %s\n#define MD_IDENTITY %s\n#define MD_OP(a, b) %s\n",
                     md_cg_lane_type(scan->type), md_cg_scalar_type(scan->type), op->identity[i], op->combine[i]);
    md_strbuf_printf(out, "#define MD_TOTAL %s\n#define MD_TOTAL_IDENTITY %s\n#define MD_OP_TOTAL(a, b) %s\n",
                     md_cg_scalar_type(carried), op->identity[c], op->combine[c]);
    md_strbuf_printf(out, "#define MD_CARRY %d\n#define MD_REVERSE %d\n#define MD_EXCLUSIVE %d\n",
                     !is_wide                  ? 0
                     : scan->op == MD_FX_S_SUM ? 1
                                               : 2,
                     scan->reverse, scan->exclusive);
    md_strbuf_printf(out, "#define MD_SPLAT(x) md_splat_%s(x)\n", md_cg_suffix(scan->type, false));
    if (scan->type == MD_BOOL)
        md_strbuf_add(out, "#define MD_GET(v, k) ((v)[k] != 0)\n#define MD_SET(v, k, x) ((v)[k] = -(x))\n");
    else
        md_strbuf_add(out, "#define MD_GET(v, k) ((v)[k])\n#define MD_SET(v, k, x) ((v)[k] = (x))\n");
}

static void print_list(md_strbuf *out, const char *type, int32_t n, const int32_t *index, const char *end)
{
    for (int32_t i = 0; i < n; i++)
        md_strbuf_printf(out, " %sx%" PRId32 "%s", type, index[i], end);
}

void md_cg_print_row_at(md_strbuf *out, const md_st_program *program, int32_t n, const int32_t *outer)
{
    md_strbuf_add(out, "#define MD_ROWS(p) ");
    md_cg_print_points(out, program, n, outer);
    md_strbuf_add(out, "\nstruct md_outer {");
    print_list(out, "int64_t ", n, outer, ";");
    md_strbuf_add(out, " };\nMD_INLINE md_outer md_outer_at(const md_params *p, int64_t row)\n{\n(void)p;\n");
    md_cg_print_decode(out, program, n, outer, "row");
    md_strbuf_add(out, "md_outer o = {");
    print_list(out, "", n, outer, ",");
    md_strbuf_add(out,
                  " };\nreturn o;\n}\n#define MD_ROW_AT(p, row) const md_outer md_row_indices = md_outer_at(p, row);");
    for (int32_t i = 0; i < n; i++)
        md_strbuf_printf(out, " const int64_t x%" PRId32 " = md_row_indices.x%" PRId32 "; (void)x%" PRId32 ";",
                         outer[i], outer[i], outer[i]);
    md_strbuf_add(out, " (void)md_row_indices\n");
}

/* MD_X and its kin: columns carry the lanes' position and count in front of the other arguments. */
static void print_indices(md_strbuf *out, const md_cg_scan_options *o)
{
    const md_st_stage *st = &o->program->stage[o->stage];
    int32_t n = st->n_outer - o->is_column;
    char size[32];
    md_strbuf_printf(out, "#define MD_COUNT(p) %s\n#define MD_OUTER_DECL", md_cg_size(size, o->program, st->axis));
    print_list(out, "int64_t ", n, st->outer, ",");
    md_strbuf_add(out, "\n#define MD_OUTER");
    print_list(out, "", n, st->outer, ",");
    if (o->is_column) {
        int32_t lane = st->outer[n];
        md_strbuf_printf(out, "\n#define MD_X_DECL MD_OUTER_DECL int64_t x%" PRId32 ", md_n_t md_n,\n", lane);
        md_strbuf_printf(out, "#define MD_X_AT(position, n) MD_OUTER (position), (n),\n#define MD_COLUMNS(p) %s\n",
                         md_cg_size(size, o->program, lane));
    } else {
        md_strbuf_add(out, "\n#define MD_X_DECL MD_OUTER_DECL\n#define MD_X MD_OUTER\n");
    }
    md_cg_print_row_at(out, o->program, n, st->outer);
}

md_status md_cg_scan_cuda_print(md_strbuf *defines, md_strbuf *expr, const md_cg_scan_options *o)
{
    const md_st_stage *st = &o->program->stage[o->stage];
    md_cg_options options = {.program = o->program,
                             .stage = o->stage,
                             .dialect = MD_DEV_CUDA,
                             .access = o->access,
                             .streaming = o->streaming,
                             .lane = o->is_column ? st->outer[st->n_outer - 1] : st->axis};
    md_cg *cg = md_cg_create(&options);
    if (!cg)
        return md_fail_memory();
    md_cg_print_params(expr, o->param, o->n_params);
    print_indices(expr, o);
    print_types(expr, &st->scan);
    md_cg_print_scan(expr, cg, o);
    if (!o->is_column)
        md_cg_print_scan_lead(expr, cg, st);
    md_cg_print_uses(cg, defines);
    md_strbuf_printf(defines, "#define MD_COLUMN %d\n", o->is_column);
    md_cg_define_recurrence(defines, &st->scan);
    md_status status = md_cg_status(cg);
    md_cg_destroy(&cg);
    return status != MD_OK ? status : defines->failed || expr->failed ? md_fail_memory() : MD_OK;
}
