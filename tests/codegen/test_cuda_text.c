/* The vocabulary of GPU text: every name of it, for every type, compiles, on three architectures with 4, 2 and 8
 * lanes. Needs NVRTC, no GPU. Without --full on one of the three, and a fifth of the functions, by MD_TEST_SEED. */
#include "support/check.h"

#include "base/status.h"
#include "base/strbuf.h"
#include "codegen/codegen.h"
#include "device/nvrtc/nvrtc.h"
#include "expr/scalar.h"

typedef struct type_row {
    const char *suffix; /* of lanes; that of a scalar is s<suffix> */
    const char *lanes, *scalar;
    bool is_real, is_number;
} type_row;

static const type_row type[] = {{"f", "md_f", "float", true, true},
                                {"d", "md_d", "double", true, true},
                                {"i", "md_i", "int64_t", false, true},
                                {"b", "md_b", "int", false, false}};

static const char *const storage[][2] = {{"f32", "f"}, {"f64", "d"}, {"f16", "f"},  {"bf16", "f"},   {"i32", "i"},
                                         {"i64", "i"}, {"u8", "i"},  {"bool", "b"}, {"i8", "i"},     {"i16", "i"},
                                         {"u16", "i"}, {"u32", "i"}, {"u64", "i"},  {"f8e4m3", "f"}, {"f8e5m2", "f"},
                                         {"i4", "i"},  {"u4", "i"}};

/* Every result is stored, so that ptxas sees all instructions. */
static const char head[] =
    "struct md_params { char *t; };\n"
    "MD_INLINE int64_t md_points(const md_params *p) { return 1; }\n"
    "template <class T> MD_INLINE void use(const md_params *p, T v, int64_t at) { *(T *)(p->t + at * 256) = v; }\n"
    "template <class T> MD_INLINE T any(const md_params *p, int64_t at) { return *(volatile const T *)(p->t + at * "
    "256); }\n"
    "template <class T> MD_INLINE T lanes(const md_params *p, int64_t at) { return *(const T *)(p->t + at * 256); }\n";

/* A function of its own for each group, so that none is large. */
static void open(md_strbuf *out, md_strbuf *calls, const char *name)
{
    md_strbuf_printf(out,
                     "MD_OUTLINE void %s(const md_params *p, int64_t point)\n{\nint64_t k = point;\n"
                     "const md_full full = {}; const md_whole whole = {}; const md_span span = {(int)(point & 1), "
                     "(int)(point & 7)};\n"
                     "(void)full, (void)whole, (void)span;\n",
                     name);
    md_strbuf_printf(calls, "%s(p, point);\n", name);
}

/* Calls every function of the table that generated text may call for this type. */
static void print_number(md_strbuf *out, const char *s, const char *t, bool is_real, bool has_math)
{
    static const char *const operands[] = {"", "a", "a, b", "a, b, a"};
    for (md_fx_op op = MD_FX_NO_OP; op < MD_FX_N_OPS; op++) {
        const md_fx_op_row *row = md_fx_op_info(op);
        const bool is_function = md_scalar_real(op) && !row->sign, is_left_out = is_real && row->is_math && !has_math;
        if (is_function && !is_left_out && (is_real || (md_scalar_int(op) && !row->is_whole)))
            md_strbuf_printf(out, "use<%s>(p, md_%s_%s(%s), k++);\n", t, row->name, s, operands[row->arity]);
    }
    md_strbuf_printf(out, "use<%s>(p, a + b - a * b, k++); use<%s>(p, -a, k++);\n", t, t);
}

/* What there is for any type, in lanes (prefix "") or alone ("s"). */
static void print_type(md_strbuf *out, md_strbuf *calls, const type_row *row, const char *prefix, bool has_math)
{
    static const char *const compare[] = {"lt", "le", "gt", "ge", "eq", "ne"};
    const char *t = *prefix ? row->scalar : row->lanes, *bool_type = *prefix ? "int" : "md_b";
    char s[8], name[16];
    snprintf(s, sizeof s, "%s%s", prefix, row->suffix);
    snprintf(name, sizeof name, "test_%s", s);
    open(out, calls, name);
    md_strbuf_printf(out, "const %s a = lanes<%s>(p, point + 1), b = lanes<%s>(p, point + 2);\n", t, t, t);
    for (size_t i = 0; i < MD_COUNT(compare); i++)
        md_strbuf_printf(out, "use<%s>(p, md_%s_%s(a, b), k++);\n", bool_type, compare[i], s);
    md_strbuf_printf(out, "use<%s>(p, md_where_%s(lanes<%s>(p, point), a, b), k++);\n", t, s, bool_type);
    md_strbuf_printf(out, "use<%s>(p, md_beyond_max_%s(a, b), k++); use<%s>(p, md_beyond_min_%s(a, b), k++);\n",
                     bool_type, s, bool_type, s);
    if (!*prefix)
        md_strbuf_printf(out, "use<%s>(p, md_splat_%s(lanes<%s>(p, point)), k++);\n", t, s, row->scalar);
    if (row->is_number)
        print_number(out, s, t, row->is_real, has_math);
    else
        md_strbuf_printf(out,
                         "use<%s>(p, md_and_%s(a, md_or_%s(b, md_not_%s(a))), k++); use<%s>(p, md_max_%s(a, "
                         "md_min_%s(a, b)), k++);\n",
                         t, s, s, s, t, s, s);
    if (row->is_real)
        md_strbuf_printf(out,
                         "use<%s>(p, md_isnan_%s(a), k++); use<%s>(p, md_isinf_%s(a), k++); use<%s>(p, a / b, k++);\n",
                         bool_type, s, bool_type, s, t);
    for (size_t i = 0; i < MD_COUNT(type); i++)
        if (&type[i] != row)
            md_strbuf_printf(out, "use<%s>(p, md_cast_%s_%s%s(a), k++);\n", *prefix ? type[i].scalar : type[i].lanes, s,
                             prefix, type[i].suffix);
    for (size_t i = 0; row->is_number && i < 13; i++) {
        static const char *const to[] = {"bf16", "f16",    "i32",    "u8",  "i8", "i16", "u16",
                                         "u32",  "f8e4m3", "f8e5m2", "u64", "i4", "u4"};
        md_strbuf_printf(out, "use(p, md_round_%s_%s(a), k++);\n", to[i], s);
    }
    md_strbuf_add(out, "}\n");
}

static void print_memory(md_strbuf *out, md_strbuf *calls, const char *T, const char *s, const char *n)
{
    const char *lanes = s[0] == 'f' ? "md_f" : s[0] == 'd' ? "md_d" : s[0] == 'i' ? "md_i" : "md_b";
    char name[32];
    snprintf(name, sizeof name, "test_%s_%s", T, n);
    open(out, calls, name);
    md_strbuf_printf(out,
                     "const md_i o = lanes<md_i>(p, point); const md_b m = lanes<md_b>(p, point + 1); const %s v = "
                     "lanes<%s>(p, point + 2);\n",
                     lanes, lanes);
    md_strbuf_printf(
        out, "use(p, md_load_%s_unit(p->t, point, %s), k++); use(p, md_load_%s_unit_any(p->t, point, %s), k++);\n", T,
        n, T, n);
    md_strbuf_printf(out,
                     "use(p, md_load_%s_unit_m(p->t, point, %s, m), k++); use(p, md_load_%s_strided(p->t, point, "
                     "point, %s), k++);\n",
                     T, n, T, n);
    md_strbuf_printf(
        out,
        "use(p, md_load_%s_strided_m(p->t, point, point, %s, m), k++); use(p, md_load_%s_gather(p->t, o, %s), k++);\n",
        T, n, T, n);
    md_strbuf_printf(out,
                     "use(p, md_load_%s_gather_m(p->t, o, md_when(point > 3, %s), m), k++); use(p, md_load_%s_s(p->t, "
                     "point), k++);\n",
                     T, n, T);
    md_strbuf_printf(
        out,
        "{ const md_raw_%s r = md_fetch_%s_unit(p->t, point, %s), q = md_fetch_%s_strided(p->t, point, 3, %s); "
        "use(p, md_unpack_%s(r), k++); use(p, md_unpack_%s(q), k++); }\n",
        T, T, n, T, n, T, T);
    md_strbuf_printf(out,
                     "md_store_%s_unit(p->t, point, v, %s); md_store_%s_unit_nt(p->t, point, v, %s); "
                     "md_store_%s_strided(p->t, point, point, v, %s);\n",
                     T, n, T, n, T, n);
    md_strbuf_printf(out,
                     "md_store_%s_scatter(p->t, o, v, %s, m); md_store_%s_s(p->t, point, v.v[0]); use(p, "
                     "md_lead_%s(p->t, point), k++);\n",
                     T, n, T, T);
    static const char *const op[] = {"add", "max", "min"};
    for (size_t i = 0; i < MD_COUNT(op); i++) {
        md_strbuf_printf(out, "md_update_%s_%s_s(p->t, point, v.v[0]); md_update_%s_%s_unit(p->t, point, v, %s);\n",
                         op[i], T, op[i], T, n);
        md_strbuf_printf(
            out, "md_update_%s_%s_strided(p->t, point, 3, v, %s); md_update_%s_%s_scatter(p->t, o, v, %s, m);\n", op[i],
            T, n, op[i], T, n);
    }
    md_strbuf_add(out, "}\n");
}

static void print_others(md_strbuf *out, md_strbuf *calls)
{
    open(out, calls, "test_others");
    md_strbuf_add(out, "const md_i i = md_iota_i(point); const md_b b = md_head_b(span) & md_inside_i(i, 5);\n"
                       "use(p, md_any_b(b) + md_all_b(b) + md_inside_si(point, 7), k++);\n"
                       "if (md_any_b(b)) md_report_lanes(p->t, 1, 2, i, b);\n"
                       "use(p, md_odd_sd_sf(any<double>(p, point)) + md_odd_si_sf(point), k++);\n"
                       "use(p, md_odd_d_f(lanes<md_d>(p, point)), k++); use(p, md_odd_i_f(i), k++);\n"
                       "use(p, md_philox_i(i, i, i), k++); use(p, md_philox_si(point, 1, 2), k++);\n"
                       "use(p, md_shfl_xor(i, 1), k++); use(p, md_shfl(i, 1), k++); use(p, md_ballot(md_all_b(b)) + "
                       "md_share(point, 1, 2), k++);\n"
                       "md_copy16(md_shared, p->t, 16); md_copy_commit(); md_copy_wait<0>();\n"
                       "md_store16(p->t, md_load16(p->t + 16, md_policy_first()), md_policy_last());\n}\n");
}

static md_status make_text(md_strbuf *out, int32_t lanes)
{
    static const char *const use[] = {"F32",    "F64",    "F16", "BF16", "I32", "I64", "U8", "BOOL", "I8",
                                      "F8E4M3", "F8E5M2", "I16", "U16",  "U32", "U64", "I4", "U4"};
    static const char *const n[] = {"span", "full", "whole"};
    md_strbuf defines = {0}, expr = {0}, calls = {0};
    md_strbuf_printf(&defines, "#define MD_VL %d\n#define MD_ALLOW_STACK 1\n", (int)lanes);
    for (size_t i = 0; i < MD_COUNT(use); i++)
        md_strbuf_printf(&defines, "#define MD_USE_%s 1\n", use[i]);
    for (md_fx_op op = MD_FX_NO_OP; op < MD_FX_N_OPS; op++)
        if (md_fx_op_info(op)->is_math)
            md_strbuf_printf(&defines, "#define MD_USE_%s 1\n", md_fx_op_info(op)->uses);
    md_strbuf_add(&expr, head);
    for (size_t i = 0; i < MD_COUNT(type); i++) {
        /* f64 functions are long: alone here, in lanes where there are two. */
        print_type(&expr, &calls, &type[i], "", i == 0 || (i == 1 && lanes == 2));
        print_type(&expr, &calls, &type[i], "s", i == 0 || (i == 1 && lanes == 8));
    }
    for (size_t i = 0; i < MD_COUNT(storage); i++)
        print_memory(&expr, &calls, storage[i][0], storage[i][1], n[(i + (size_t)lanes / 2) % 3]);
    print_others(&expr, &calls);
    md_strbuf_printf(&expr, "static void md_nest(const md_params *p, int64_t point, int64_t)\n{\n%s}\n",
                     md_strbuf_text(&calls));
    md_status s = md_cg_assemble(out, MD_DEV_CUDA, "cuda/nest.cu", md_strbuf_text(&defines), md_strbuf_text(&expr));
    md_strbuf_finish(&defines);
    md_strbuf_finish(&expr);
    md_strbuf_finish(&calls);
    return s;
}

static bool is_full;
static uint64_t seed;

/* Whether the sample has number i. */
static bool is_taken(int i)
{
    return is_full || ((uint64_t)i + seed) % 5 == 0;
}

static void compile(int32_t lanes, const char *arch)
{
    md_dev_nvrtc nvrtc;
    if (md_dev_nvrtc_open(&nvrtc) != MD_OK) {
        print_message("THE VOCABULARY OF GPU TEXT IS NOT CHECKED: %s\n", md_last_error());
        skip();
    }
    md_strbuf text = {0}, log = {0};
    void *binary = NULL;
    size_t n_bytes = 0;
    assert_ok(make_text(&text, lanes));
    md_status s = md_dev_nvrtc_compile(&binary, &n_bytes, &log, md_strbuf_text(&text), arch);
    if (s != MD_OK)
        print_error("%s\n%.4000s\n", md_last_error(), md_strbuf_text(&log));
    assert_ok(s);
    free(binary);
    md_strbuf_finish(&text);
    md_strbuf_finish(&log);
}

/* One function in lanes, in a kernel of its own. */
static md_status make_function(md_strbuf *out, const md_fx_op_row *row, const char *suffix)
{
    const char *const operands = row->arity == 1 ? "lanes<T>(p, point)" : "lanes<T>(p, point), lanes<T>(p, point + 1)";
    md_strbuf defines = {0}, expr = {0};
    md_strbuf_printf(&defines, "#define MD_VL 4\n#define MD_USE_%s 1\n", row->uses);
    md_strbuf_printf(&expr,
                     "%sstatic void md_nest(const md_params *p, int64_t point, int64_t)\n{\ntypedef md_%s T;\n"
                     "use<T>(p, md_%s_%s(%s), point);\n}\n",
                     head, suffix, row->name, suffix, operands);
    md_status s = md_cg_assemble(out, MD_DEV_CUDA, "cuda/nest.cu", md_strbuf_text(&defines), md_strbuf_text(&expr));
    md_strbuf_finish(&defines);
    md_strbuf_finish(&expr);
    return s;
}

/* A kernel with a stack frame is refused, and the reference evaluator would serve in its place. */
static void test_no_stack(void **state)
{
    md_dev_nvrtc nvrtc;
    (void)state;
    if (md_dev_nvrtc_open(&nvrtc) != MD_OK)
        skip();
    for (int i = 0; i < 2 * MD_FX_N_OPS; i++) {
        const md_fx_op_row *row = md_fx_op_info((md_fx_op)(i / 2));
        md_strbuf text = {0}, log = {0};
        void *binary = NULL;
        size_t n_bytes = 0;
        if (!row->is_math || row->rule == MD_FX_RULE_INTEGER || !is_taken(i))
            continue;
        assert_ok(make_function(&text, row, i % 2 ? "d" : "f"));
        assert_ok(md_dev_nvrtc_compile(&binary, &n_bytes, &log, md_strbuf_text(&text), "sm_90a"));
        if (md_dev_nvrtc_check(NULL, binary, n_bytes, md_strbuf_text(&log), md_strbuf_text(&text), NULL) != MD_OK)
            fail_msg("%s of %s: %s", row->name, i % 2 ? "f64" : "f32", md_last_error());
        free(binary);
        md_strbuf_finish(&text);
        md_strbuf_finish(&log);
    }
}

static void test_names(void **state)
{
    static const struct {
        int32_t lanes;
        const char *arch;
    } list[] = {{4, "sm_80"}, {2, "sm_90a"}, {8, "sm_100a"}};
    (void)state;
    for (int i = 0; i < (int)MD_COUNT(list); i++)
        if (is_taken(i))
            compile(list[i].lanes, list[i].arch);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_no_stack), cmocka_unit_test(test_names)};
    is_full = argc > 1 && strcmp(argv[1], "--full") == 0;
    seed = check_seed();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
