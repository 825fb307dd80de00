/* The functions of a scan program. */
#include "codegen/row/scan.h"

#include "base/status.h"
#include "codegen/row/row.h"

#include <inttypes.h>

typedef struct scan_row {
    const char *name;
    const char *identity[4]; /* f32, f64, i64, bool */
} scan_row;

static const scan_row *row_of(md_fx_op op)
{
    static const scan_row table[] = {
        {"sum", {"0.0f", "0.0", "0", "0"}},
        {"prod", {"1.0f", "1.0", "1", "1"}},
        {"max", {"-__builtin_inff()", "-__builtin_inf()", "INT64_MIN", "0"}},
        {"min", {"__builtin_inff()", "__builtin_inf()", "INT64_MAX", "1"}},
    };
    return &table[op == MD_FX_S_SUM ? 0 : op == MD_FX_S_PROD ? 1 : op == MD_FX_S_MAX ? 2 : 3];
}

const char *md_cg_recur_neutral(md_fx_op op, bool is_term, bool is_cuda)
{
    if (op == MD_FX_S_LINEAR)
        return is_term ? "0" : "1";
    if (!is_term)
        return "0";
    if (is_cuda)
        return op == MD_FX_S_MAX_PLUS ? "-MD_INF_F" : "MD_INF_F";
    return op == MD_FX_S_MAX_PLUS ? "-__builtin_inff()" : "__builtin_inff()";
}

/* host/recur.h defines what these leave out. */
static void print_recurrence_macros(md_strbuf *out, const md_st_scan *scan)
{
    const bool is_wide = scan->type == MD_F32;
    const md_dtype carried = is_wide ? MD_F64 : scan->type;
    const char *s = md_cg_suffix(scan->type, false), *one = md_cg_recur_neutral(scan->op, false, false),
               *zero = md_cg_recur_neutral(scan->op, true, false);
    md_strbuf_printf(out, "typedef struct md_step { %s a, b; } md_step;\n#define MD_VALUE md_step\n",
                     md_cg_lane_type(scan->type));
    md_strbuf_printf(out, "typedef struct md_steps { %s a, b; } md_steps;\n#define MD_TOTAL md_steps\n",
                     md_cg_scalar_type(carried));
    md_strbuf_printf(out, "#define MD_RESULT %s\n#define MD_ONE %s\n#define MD_WIDE %s\n#define MD_TOTALS %s\n",
                     md_cg_lane_type(scan->type), md_cg_scalar_type(scan->type), md_cg_scalar_type(carried),
                     md_cg_lane_type(carried));
    md_strbuf_printf(out, "#define MD_WIDEN(v) %s(v)\n#define MD_NARROW(v) %s(v)\n", is_wide ? "md_cast_f_d" : "",
                     is_wide ? "md_cast_d_f" : "");
    md_strbuf_printf(out,
                     "#define MD_IDENTITY {%s, %s}\n#define MD_NOTHING %s\n#define MD_SPLAT_TOTAL(x) md_splat_%s(%s)\n",
                     one, zero, zero, md_cg_suffix(carried, false), zero);
    md_strbuf_printf(out,
                     "#define MD_ONLY_HEAD(v, n) md_only_head(v, n)\nMD_INLINE md_step md_only_head(md_step v, int n)\n"
                     "{\nreturn (md_step){md_only_%s(v.a, %s, n), md_only_%s(v.b, %s, n)};\n}\n",
                     s, one, s, zero);
    md_strbuf_add(out, "#define MD_SCAN(v, carry) md_recur_scan(v, carry)\n"
                       "#define MD_THEN_ONE(v, carry) md_recur_then(v, carry)\n");
    md_strbuf_printf(out, "#define MD_REVERSE %d\n#define MD_EXCLUSIVE %d\n", scan->reverse, scan->exclusive);
}

static void print_macros(md_strbuf *out, const md_st_scan *scan)
{
    if (md_fx_is_recurrence(scan->op)) {
        print_recurrence_macros(out, scan);
        return;
    }
    const scan_row *row = row_of(scan->op);
    const char *s = md_cg_suffix(scan->type, false);
    bool is_carried_wide = scan->type == MD_F32 && (scan->op == MD_FX_S_SUM || scan->op == MD_FX_S_PROD);
    md_dtype carried = is_carried_wide ? MD_F64 : scan->type;
    int32_t i = scan->type == MD_F32 ? 0 : scan->type == MD_F64 ? 1 : scan->type == MD_I64 ? 2 : 3;
    md_strbuf_printf(out,
                     "#define MD_VALUE %s\n#define MD_RESULT MD_VALUE\n#define MD_TOTAL %s\n#define MD_TOTALS %s\n"
                     "#define MD_IDENTITY %s\n",
                     md_cg_lane_type(scan->type), md_cg_scalar_type(carried), md_cg_lane_type(carried),
                     row->identity[i]);
    md_strbuf_printf(out, "#define MD_SPLAT(x) md_splat_%s(x)\n#define MD_SPLAT_TOTAL(x) md_splat_%s(x)\n", s,
                     md_cg_suffix(carried, false));
    md_strbuf_printf(out, "#define MD_ONLY_HEAD(v, n) md_only_%s(v, MD_IDENTITY, n)\n", s);
    md_strbuf_printf(out, "#define MD_FOLD(v) md_fold_%s_%s(v)\n", row->name, md_cg_suffix(carried, false));
    md_strbuf_printf(out, "#define MD_REVERSE %d\n#define MD_EXCLUSIVE %d\n", scan->reverse, scan->exclusive);
    md_strbuf_printf(
        out, "#define MD_SCAN(v, carry) md_scan_%s_%s(v, carry, MD_SPLAT(MD_IDENTITY), MD_EXCLUSIVE, MD_REVERSE)\n",
        row->name, s);
    md_strbuf_printf(out, "#define MD_THEN_ONE(v, carry) md_then_%s_%s(v, carry, MD_EXCLUSIVE)\n", row->name, s);
    md_strbuf_printf(out, "#define MD_THEN_TOTAL(v, carry) md_then_%s_%s(v, carry, 1)\n", row->name,
                     md_cg_suffix(carried, false));
}

static void print_body(md_strbuf *out, md_cg *cg, const md_st_stage *st, const char *kind, const char *at)
{
    md_strbuf_printf(out, "%sMD_INLINE MD_VALUE md_body(MD_X_DECL const md_params *p, int64_t x%" PRId32 "%s)\n{\n%s",
                     kind, st->axis, at, kind[0] ? "(void)md_n;\n" : "");
    md_cg_begin(cg, out);
    if (md_fx_is_recurrence(st->scan.op)) {
        const char *a = md_cg_lanes(cg, md_cg_recur_factor(cg, st->scan.body));
        const char *b = md_cg_lanes(cg, st->scan.body->arg[1]);
        if (a && b)
            md_strbuf_printf(out, "const MD_VALUE step = {%s, %s};\nreturn step;\n}\n", a, b);
        return;
    }
    const char *value = md_cg_convert(cg, md_cg_lanes(cg, st->scan.body), st->scan.body->type, st->scan.type, false);
    if (value)
        md_strbuf_printf(out, "return %s;\n}\n", value);
}

static void print_out(md_strbuf *out, md_cg *cg, const md_st_stage *st, const char *kind, const char *at)
{
    const char *value[MD_ST_MAX_STORES] = {NULL};
    bool is_uniform[MD_ST_MAX_STORES] = {false};
    md_strbuf_printf(
        out, "%sMD_INLINE void md_out(MD_X_DECL const md_params *p, int64_t x%" PRId32 "%s, MD_RESULT scanned)\n{\n",
        kind, st->axis, at);
    md_cg_begin(cg, out);
    md_cg_bind_ref(cg, 0, st->scan.type, "scanned", false);
    for (int32_t i = 0; i < st->n_stores; i++)
        value[i] = md_cg_value(cg, st->store[i].value, &is_uniform[i]);
    for (int32_t i = 0; i < st->n_stores && md_cg_status(cg) == MD_OK; i++)
        md_cg_store(cg, &st->store[i], value[i], is_uniform[i]);
    md_strbuf_add(out, "}\n");
}

const md_fx_node *md_cg_recur_factor(md_cg *cg, const md_fx_node *step)
{
    if (step->n_args < 3)
        return step->arg[0];
    const md_fx_node zero = {.kind = MD_FX_CONST, .type = step->type};
    const md_fx_node *arg[3] = {step->arg[2], md_cg_keep(cg, &zero), step->arg[0]};
    const md_fx_node where = {.kind = MD_FX_OP, .op = MD_FX_WHERE, .type = step->type, .n_args = 3, .arg = arg};
    return arg[1] ? md_cg_keep(cg, &where) : NULL;
}

void md_cg_define_recurrence(md_strbuf *defines, const md_st_scan *scan)
{
    if (md_fx_is_recurrence(scan->op))
        md_strbuf_printf(defines, "#define MD_RECURRENCE %d\n#define MD_RESTARTS %d\n",
                         1 + (int)(scan->op - MD_FX_S_LINEAR), scan->body->n_args > 2);
}

void md_cg_print_scan(md_strbuf *out, md_cg *cg, const md_cg_scan_options *o)
{
    const md_st_stage *st = &o->program->stage[o->stage];
    bool is_cuda = o->dialect == MD_DEV_CUDA;
    const char *kind = is_cuda ? "MD_N_DECL " : "", *at = o->is_column ? "" : is_cuda ? ", md_n_t md_n" : ", int md_n";
    print_body(out, cg, st, kind, at);
    print_out(out, cg, st, kind, at);
}

void md_cg_print_scan_lead(md_strbuf *out, md_cg *cg, const md_st_stage *st)
{
    md_strbuf lead = {0};
    md_strbuf_printf(out, "MD_INLINE int64_t md_lead(MD_X_DECL const md_params *p, int64_t x%" PRId32 ")\n{\n",
                     st->axis);
    md_cg_begin(cg, out);
    md_cg_print_lead(cg, &st->store[0], &lead);
    md_strbuf_printf(out, "return %s;\n}\n", md_strbuf_text(&lead));
    out->failed |= lead.failed;
    md_strbuf_finish(&lead);
}

md_status md_cg_scan_print(md_strbuf *defines, md_strbuf *expr, const md_cg_scan_options *o)
{
    const md_st_stage *st = &o->program->stage[o->stage];
    md_cg_options options = {.program = o->program,
                             .stage = o->stage,
                             .dialect = o->dialect,
                             .access = o->access,
                             .streaming = o->streaming,
                             .lane = o->is_column ? st->outer[st->n_outer - 1] : st->axis};
    md_cg *cg = md_cg_create(&options);
    if (!cg)
        return md_fail_memory();
    md_cg_print_params(expr, o->param, o->n_params);
    md_cg_print_row_indices(expr, o->program, o->stage, o->is_column, o->dialect);
    print_macros(expr, &st->scan);
    md_cg_print_scan(expr, cg, o);
    md_cg_print_prefetch(expr, cg, 1, &st->scan.body, "__builtin_prefetch");
    if (!o->is_column)
        md_cg_print_scan_lead(expr, cg, st);
    md_cg_print_row_loop(expr, o->program, o->stage, o->is_column);
    md_cg_print_uses(cg, defines);
    md_strbuf_printf(defines, "#define MD_NONTEMPORAL %d\n#define MD_COLUMN %d\n", o->streaming, o->is_column);
    md_cg_define_recurrence(defines, &st->scan);
    md_status status = md_cg_status(cg);
    md_cg_destroy(&cg);
    return status != MD_OK ? status : defines->failed || expr->failed ? md_fail_memory() : MD_OK;
}
