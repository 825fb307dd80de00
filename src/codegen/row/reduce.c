/* One reduction as text: identity, update, joining accumulators, folding lanes, merging the results of two chunks. */
#include "codegen/row/reduce.h"

#include "base/status.h"

#include <inttypes.h>
#include <string.h>

typedef struct op_row {
    const char *fold; /* md_fold_<fold>_<type> */
    const char *sign; /* a C operator; NULL: md_<name>_<type>(a, b) */
    const char *name;
    const char *identity[5]; /* f32, f64, i64, bool, bytes */
} op_row;

#define FINITE(x)                                                                                                      \
    {                                                                                                                  \
        x, x, x, x, x                                                                                                  \
    }
#define LOWEST                                                                                                         \
    {                                                                                                                  \
        "-__builtin_inff()", "-__builtin_inf()", "INT64_MIN", "0", "MD_LOWEST_Y"                                       \
    }
#define HIGHEST                                                                                                        \
    {                                                                                                                  \
        "__builtin_inff()", "__builtin_inf()", "INT64_MAX", "1", "MD_HIGHEST_Y"                                        \
    }

static const op_row *row_of(md_fx_op op)
{
    static const op_row table[MD_FX_N_OPS] = {
        [MD_FX_R_SUM] = {"sum", "+", 0, FINITE("0")},    [MD_FX_R_PROD] = {"prod", "*", 0, FINITE("1")},
        [MD_FX_R_MAX] = {"max", 0, "max", LOWEST},       [MD_FX_R_MIN] = {"min", 0, "min", HIGHEST},
        [MD_FX_R_ANY] = {"max", 0, "max", LOWEST},       [MD_FX_R_ALL] = {"min", 0, "min", HIGHEST},
        [MD_FX_R_ARGMAX] = {"argmax", 0, "max", LOWEST}, [MD_FX_R_ARGMIN] = {"argmin", 0, "min", HIGHEST},
    };
    return &table[op];
}

bool md_cg_is_arg(md_fx_op op)
{
    return op == MD_FX_R_ARGMAX || op == MD_FX_R_ARGMIN;
}

md_dtype md_cg_acc_type(const md_st_reduction *r)
{
    if (!md_cg_is_arg(r->op))
        return r->type;
    return r->body_type == MD_BOOL ? MD_I64 : r->body_type;
}

static const char *host_identity_of(const md_cg_reduction *reduction)
{
    const md_dtype type = md_cg_acc_type(reduction->r);
    const int32_t whole = reduction->is_bytes ? 4 : 2;
    return row_of(reduction->r->op)->identity[type == MD_F32 ? 0 : type == MD_F64 ? 1 : type == MD_I64 ? whole : 3];
}

/* Suffix and C type of lanes, and of accumulators: bytes are added up in wider ones. */
static const char *lane_suffix(const md_cg_reduction *reduction, md_dtype type)
{
    return reduction->is_bytes ? md_cg_byte_suffix(type) : md_cg_suffix(type, false);
}

/* Accumulators of another type than lanes: NULL where there is none. Sums of integers along the lanes are wider than
 * bytes, and apart from md_i, which is two registers; sums of reals that lanes hold as memory does, and their
 * extremes. */
static const char *apart_suffix(const md_cg_reduction *reduction)
{
    const md_dtype type = md_cg_acc_type(reduction->r);
    const bool is_sum = reduction->r->op == MD_FX_R_SUM;
    if (reduction->is_gpu)
        return NULL;
    if (reduction->is_bytes)
        return is_sum ? "total" : type == MD_F32 ? "extent" : NULL;
    if (reduction->is_near)
        return "near";
    return is_sum && type == MD_I64 ? "pair" : NULL;
}

static const char *acc_suffix(const md_cg_reduction *reduction)
{
    const char *apart = apart_suffix(reduction);
    return apart ? apart : lane_suffix(reduction, md_cg_acc_type(reduction->r));
}

static const char *identity_of(const md_cg_reduction *reduction)
{
    static const struct {
        const char *host, *gpu;
    } same[] = {{"-__builtin_inff()", "-MD_INF_F"},
                {"-__builtin_inf()", "-MD_INF_D"},
                {"__builtin_inff()", "MD_INF_F"},
                {"__builtin_inf()", "MD_INF_D"}};
    const char *text = host_identity_of(reduction);
    for (int32_t i = 0; reduction->is_gpu && i < MD_COUNT(same); i++)
        if (strcmp(text, same[i].host) == 0)
            return same[i].gpu;
    return text;
}

static const char *type_of(const md_cg_reduction *reduction, md_dtype type)
{
    return reduction->is_column ? md_cg_lane_type(type) : md_cg_scalar_type(type);
}

/* Suffix of results: sf, or f in columns. */
static const char *suffix_of(const md_cg_reduction *reduction, md_dtype type)
{
    return md_cg_suffix(type, !reduction->is_column);
}

static void print_combined(md_strbuf *out, const op_row *row, const char *suffix, const char *a, const char *b,
                           int32_t id)
{
    if (row->sign)
        md_strbuf_printf(out, "%s%" PRId32 " %s %s%" PRId32, a, id, row->sign, b, id);
    else
        md_strbuf_printf(out, "md_%s_%s(%s%" PRId32 ", %s%" PRId32 ")", row->name, suffix, a, id, b, id);
}

void md_cg_red_row_fields(md_strbuf *out, const md_cg_reduction *reduction)
{
    md_strbuf_printf(out, "%s r%" PRId32 ";\n", type_of(reduction, reduction->r->type), reduction->id);
    if (md_cg_is_arg(reduction->r->op))
        md_strbuf_printf(out, "%s v%" PRId32 ";\n", type_of(reduction, md_cg_acc_type(reduction->r)), reduction->id);
    if (reduction->has_shift)
        md_strbuf_printf(out, "%s e%" PRId32 ";\n", type_of(reduction, reduction->r->type), reduction->id);
}

/* On a GPU the first greatest element is looked for by whole vectors. */
static bool is_by_vectors(const md_cg_reduction *reduction)
{
    return reduction->is_gpu && !reduction->is_column && md_cg_is_arg(reduction->r->op);
}

void md_cg_red_acc_fields(md_strbuf *out, const md_cg_reduction *reduction)
{
    if (is_by_vectors(reduction)) {
        md_strbuf_printf(out, "md_best<%s> b%" PRId32 ";\n", md_cg_scalar_type(md_cg_acc_type(reduction->r)),
                         reduction->id);
        return;
    }
    if (reduction->is_bytes || apart_suffix(reduction))
        md_strbuf_printf(out, "md_%s a%" PRId32 ";\n", acc_suffix(reduction), reduction->id);
    else
        md_strbuf_printf(out, "%s a%" PRId32 ";\n", md_cg_lane_type(md_cg_acc_type(reduction->r)), reduction->id);
    if (md_cg_is_arg(reduction->r->op))
        /* positions; where lanes run over the axis, without the lane's own number */
        md_strbuf_printf(out, "md_b i%" PRId32 ";\n", reduction->id);
}

void md_cg_red_clear(md_strbuf *out, const md_cg_reduction *reduction)
{
    if (is_by_vectors(reduction)) {
        md_strbuf_printf(out, "md_clear_best<%s>(&acc->b%" PRId32 ", %s, first);\n",
                         md_cg_scalar_type(md_cg_acc_type(reduction->r)), reduction->id, identity_of(reduction));
        return;
    }
    md_strbuf_printf(out, "acc->a%" PRId32 " = md_splat_%s(%s);\n", reduction->id, acc_suffix(reduction),
                     identity_of(reduction));
    /* Where nothing beats the identity, the first element is as good as any. */
    if (md_cg_is_arg(reduction->r->op))
        md_strbuf_printf(out, "acc->i%" PRId32 " = md_splat_index(first)%s;\n", reduction->id,
                         reduction->is_column ? "" : " - (md_b)MD_IOTA");
}

void md_cg_red_add(md_strbuf *out, const md_cg_reduction *reduction, const char *value, int32_t axis)
{
    const op_row *row = row_of(reduction->r->op);
    const char *s = lane_suffix(reduction, md_cg_acc_type(reduction->r));
    if (is_by_vectors(reduction)) {
        md_strbuf_printf(out, "md_take_%s_%s(&acc->b%" PRId32 ", %s, x%" PRId32 ", md_n);\n", row->fold, s,
                         reduction->id, value, axis);
        return;
    }
    if (md_cg_is_arg(reduction->r->op)) {
        md_strbuf_printf(out, "md_take_%s_%s(&acc->a%" PRId32 ", &acc->i%" PRId32 ", %s, x%" PRId32 ", %s);\n",
                         row->fold, s, reduction->id, reduction->id, value, axis,
                         !reduction->is_column ? "md_n"
                         : reduction->is_gpu   ? "md_full()"
                                               : "MD_VL");
        return;
    }
    if (reduction->is_gpu && !reduction->is_column) {
        md_strbuf_printf(out, "md_gain_%s(acc->a%" PRId32 ", %s, %s, md_n);\n", row->fold, reduction->id, value,
                         identity_of(reduction));
        return;
    }
    md_strbuf_printf(out, "const %s y%" PRId32 " = ",
                     reduction->is_near    ? "md_b"
                     : reduction->is_bytes ? md_cg_byte_type(reduction->r->type)
                                           : md_cg_lane_type(reduction->r->type),
                     reduction->id);
    if (reduction->is_column)
        md_strbuf_printf(out, "%s;\n", value);
    else
        md_strbuf_printf(out, "md_only_%s(%s, %s, md_n);\n", s, value, identity_of(reduction));
    md_strbuf_printf(out, "acc->a%" PRId32 " = ", reduction->id);
    if (apart_suffix(reduction))
        md_strbuf_printf(out, "md_gain_%s(acc->a%" PRId32 ", y%" PRId32 ")", acc_suffix(reduction), reduction->id,
                         reduction->id);
    else
        print_combined(out, row, s, "acc->a", "y", reduction->id);
    md_strbuf_add(out, ";\n");
}

void md_cg_red_add_product(md_strbuf *out, const md_cg_reduction *reduction, const char *a, const char *b)
{
    md_strbuf_printf(out, "md_gain_product(acc->a%" PRId32 ", %s, %s, %s);\n", reduction->id, a, b,
                     reduction->is_column ? "md_full()" : "md_n");
}

void md_cg_red_join(md_strbuf *out, const md_cg_reduction *reduction)
{
    const op_row *row = row_of(reduction->r->op);
    const char *s = acc_suffix(reduction);
    if (md_cg_is_arg(reduction->r->op)) {
        md_strbuf_printf(
            out, "md_join_%s_%s(&acc->a%" PRId32 ", &acc->i%" PRId32 ", from->a%" PRId32 ", from->i%" PRId32 ");\n",
            row->fold, s, reduction->id, reduction->id, reduction->id, reduction->id);
        return;
    }
    md_strbuf_printf(out, "acc->a%" PRId32 " = ", reduction->id);
    if (apart_suffix(reduction))
        md_strbuf_printf(out, "md_join_%s(acc->a%" PRId32 ", from->a%" PRId32 ")", s, reduction->id, reduction->id);
    else
        print_combined(out, row, s, "acc->a", "from->a", reduction->id);
    md_strbuf_add(out, ";\n");
}

void md_cg_red_finish(md_strbuf *out, const md_cg_reduction *reduction)
{
    int32_t id = reduction->id;
    const char *s = acc_suffix(reduction), *fold = row_of(reduction->r->op)->fold;
    if (md_cg_is_arg(reduction->r->op) && reduction->is_column)
        md_strbuf_printf(
            out, "row->v%" PRId32 " = acc->a%" PRId32 ";\nrow->r%" PRId32 " = md_wide_index(acc->i%" PRId32 ");\n", id,
            id, id, id);
    else if (md_cg_is_arg(reduction->r->op))
        md_strbuf_printf(
            out, "md_fold_%s_%s(&row->v%" PRId32 ", &row->r%" PRId32 ", acc->a%" PRId32 ", acc->i%" PRId32 ");\n", fold,
            s, id, id, id, id);
    else if (reduction->is_column && apart_suffix(reduction))
        md_strbuf_printf(out, "row->r%" PRId32 " = md_whole_%s(acc->a%" PRId32 ");\n", id, s, id);
    else if (reduction->is_column)
        md_strbuf_printf(out, "row->r%" PRId32 " = acc->a%" PRId32 ";\n", id, id);
    else
        md_strbuf_printf(out, "row->r%" PRId32 " = md_fold_%s_%s(acc->a%" PRId32 ");\n", id, fold, s, id);
    if (reduction->has_shift)
        md_strbuf_printf(out, "row->e%" PRId32 " = md_shift_%s(row->r%" PRId32 ");\n", id,
                         suffix_of(reduction, reduction->r->type), id);
}

/* Each side counts by exp(its shift - the common one). */
static void print_rescaled(md_strbuf *out, const md_cg_reduction *reduction)
{
    const char *s = suffix_of(reduction, reduction->r->type);
    int32_t id = reduction->id, shift = reduction->r->shift;
    md_strbuf_printf(out,
                     "into->r%" PRId32 " = old.r%" PRId32 " * md_weight_%s(old.r%" PRId32 ", into->r%" PRId32 ") + ",
                     id, id, s, shift, shift);
    md_strbuf_printf(out, "from->r%" PRId32 " * md_weight_%s(from->r%" PRId32 ", into->r%" PRId32 ");\n", id, s, shift,
                     shift);
}

/* Chan, Golub and LeVeque, 1979. */
static void print_chan(md_strbuf *out, const md_cg_reduction *reduction)
{
    const char *type = type_of(reduction, reduction->r->type), *real = md_cg_scalar_type(reduction->r->type);
    int32_t id = reduction->id, shift = reduction->r->shift;
    md_strbuf_printf(
        out, "const %s delta%" PRId32 " = from->r%" PRId32 " / (%s)from->count - old.r%" PRId32 " / (%s)old.count;\n",
        type, id, shift, real, shift, real);
    md_strbuf_printf(out,
                     "into->r%" PRId32 " = old.r%" PRId32 " + from->r%" PRId32 " + delta%" PRId32 " * delta%" PRId32,
                     id, id, id, id, id);
    /* some GPUs divide doubles slowly, and counts are exact enough */
    const char *wide = reduction->is_gpu ? real : "double";
    md_strbuf_printf(out, " * (%s)((%s)old.count * (%s)from->count / (%s)into->count);\n", real, wide, wide, wide);
}

void md_cg_red_merge(md_strbuf *out, const md_cg_reduction *reduction)
{
    const op_row *row = row_of(reduction->r->op);
    if (reduction->r->merge == MD_ST_MERGE_RESCALED) {
        print_rescaled(out, reduction);
    } else if (reduction->r->merge == MD_ST_MERGE_CHAN) {
        print_chan(out, reduction);
    } else if (md_cg_is_arg(reduction->r->op)) {
        md_strbuf_printf(
            out, "md_join_%s_%s(&into->v%" PRId32 ", &into->r%" PRId32 ", from->v%" PRId32 ", from->r%" PRId32 ");\n",
            row->fold, suffix_of(reduction, md_cg_acc_type(reduction->r)), reduction->id, reduction->id, reduction->id,
            reduction->id);
    } else {
        md_strbuf_printf(out, "into->r%" PRId32 " = ", reduction->id);
        print_combined(out, row, suffix_of(reduction, reduction->r->type), "old.r", "from->r", reduction->id);
        md_strbuf_add(out, ";\n");
    }
    if (reduction->has_shift)
        md_strbuf_printf(out, "into->e%" PRId32 " = md_shift_%s(into->r%" PRId32 ");\n", reduction->id,
                         suffix_of(reduction, reduction->r->type), reduction->id);
}

void md_cg_red_settle(md_strbuf *out, const md_cg_reduction *reduction)
{
    if (reduction->r->merge == MD_ST_MERGE_RESCALED)
        md_strbuf_printf(out, "row->r%" PRId32 " = md_settled_%s(row->r%" PRId32 ", row->r%" PRId32 ");\n",
                         reduction->id, suffix_of(reduction, reduction->r->type), reduction->id, reduction->r->shift);
}

/* ---- On a GPU */

void md_cg_red_part_fields(md_strbuf *out, const md_cg_reduction *reduction)
{
    if (md_cg_is_arg(reduction->r->op))
        md_strbuf_printf(out, "%s v%" PRId32 ";\n%s i%" PRId32 ";\n", type_of(reduction, md_cg_acc_type(reduction->r)),
                         reduction->id, reduction->is_column ? "md_b" : "int32_t", reduction->id);
    else
        md_strbuf_printf(out, "%s r%" PRId32 ";\n", type_of(reduction, reduction->r->type), reduction->id);
}

void md_cg_red_fold(md_strbuf *out, const md_cg_reduction *reduction)
{
    int32_t id = reduction->id;
    const char *s = md_cg_suffix(md_cg_acc_type(reduction->r), false), *fold = row_of(reduction->r->op)->fold;
    if (md_cg_is_arg(reduction->r->op) && reduction->is_column)
        md_strbuf_printf(out, "part->v%" PRId32 " = acc->a%" PRId32 ";\npart->i%" PRId32 " = acc->i%" PRId32 ";\n", id,
                         id, id, id);
    else if (md_cg_is_arg(reduction->r->op))
        md_strbuf_printf(out, "md_fold_best(&part->v%" PRId32 ", &part->i%" PRId32 ", acc->b%" PRId32 ");\n", id, id,
                         id);
    else if (reduction->is_column)
        md_strbuf_printf(out, "part->r%" PRId32 " = acc->a%" PRId32 ";\n", id, id);
    else
        md_strbuf_printf(out, "part->r%" PRId32 " = md_fold_%s_%s(acc->a%" PRId32 ");\n", id, fold, s, id);
}

void md_cg_red_clear_part(md_strbuf *out, const md_cg_reduction *reduction)
{
    bool is_arg = md_cg_is_arg(reduction->r->op);
    const char *name = is_arg ? "v" : "r";
    if (reduction->is_column)
        md_strbuf_printf(out, "part->%s%" PRId32 " = md_splat_%s(%s);\n", name, reduction->id,
                         md_cg_suffix(md_cg_acc_type(reduction->r), false), identity_of(reduction));
    else
        md_strbuf_printf(out, "part->%s%" PRId32 " = %s;\n", name, reduction->id, identity_of(reduction));
    if (is_arg)
        md_strbuf_printf(out, "part->i%" PRId32 " = %s;\n", reduction->id,
                         reduction->is_column ? "md_splat_index(0)" : "0");
}

void md_cg_red_combine(md_strbuf *out, const md_cg_reduction *reduction)
{
    const op_row *row = row_of(reduction->r->op);
    int32_t id = reduction->id;
    const char *s = suffix_of(reduction, md_cg_acc_type(reduction->r));
    if (md_cg_is_arg(reduction->r->op)) {
        md_strbuf_printf(
            out, "md_join_%s_%s(&part->v%" PRId32 ", &part->i%" PRId32 ", from->v%" PRId32 ", from->i%" PRId32 ");\n",
            row->fold, s, id, id, id, id);
        return;
    }
    md_strbuf_printf(out, "part->r%" PRId32 " = ", id);
    print_combined(out, row, s, "part->r", "from->r", id);
    md_strbuf_add(out, ";\n");
}

void md_cg_red_accept(md_strbuf *out, const md_cg_reduction *reduction)
{
    int32_t id = reduction->id;
    if (md_cg_is_arg(reduction->r->op))
        md_strbuf_printf(out, "row->v%" PRId32 " = part->v%" PRId32 ";\nrow->r%" PRId32 " = %s(part->i%" PRId32 ");\n",
                         id, id, id, reduction->is_column ? "md_wide_index" : "(int64_t)", id);
    else
        md_strbuf_printf(out, "row->r%" PRId32 " = part->r%" PRId32 ";\n", id, id);
    if (reduction->has_shift)
        md_strbuf_printf(out, "row->e%" PRId32 " = md_shift_%s(row->r%" PRId32 ");\n", id,
                         suffix_of(reduction, reduction->r->type), id);
}
