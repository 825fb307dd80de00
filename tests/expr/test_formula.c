/* What a formula means: dims, arguments, roles, types, reaches. */
#include "front_check.h"

#include "expr/node.h"

static int32_t tensor_of(const md_fx_formula *f, const char *name)
{
    for (int32_t i = 0; i < f->n_tensors; ++i)
        if (strcmp(f->tensor[i].name, name) == 0)
            return i;
    fail_msg("no tensor %s", name);
    return -1;
}

static int32_t dim_of(const md_fx_formula *f, const char *name)
{
    const int32_t dim = md_fx_find_dim(f, name, strlen(name));
    if (dim < 0)
        fail_msg("no dim %s in %s", name, f->text);
    return dim;
}

/* "X[i,j]": the axes' dims by name, with a + where long enough is good enough. */
static char *axes_of(const md_fx_formula *f, const char *name)
{
    md_strbuf b = {0};
    const md_fx_tensor *const t = &f->tensor[tensor_of(f, name)];
    for (int32_t i = 0; i < t->rank; ++i)
        md_strbuf_printf(&b, "%s%s%s", i ? "," : "", f->dim[t->dim[i]].name, t->at_least[i] ? "+" : "");
    char *const text = strdup(md_strbuf_text(&b));
    md_strbuf_finish(&b);
    return text;
}

static void check_axes(const char *formula, const char *sizes, const char *tensor, const char *wanted)
{
    md_fx_formula *f = front_make(formula, &(md_fx_options){.sizes = sizes});
    char *const axes = axes_of(f, tensor);
    if (strcmp(axes, wanted) != 0)
        fail_msg("%s: %s has axes [%s], not [%s]", formula, tensor, axes, wanted);
    free(axes);
    md_fx_formula_destroy(&f);
}

static void test_dims(void **state)
{
    (void)state;
    /* two indices on one plain axis are one dim, named by the first */
    check_axes("Y[i,j] = exp(X[i,j]) / sum[k](exp(X[i,k]))", NULL, "X", "i,j");
    check_axes("Y[i,j] = sum[k](A[i,k] * A[j,k])", NULL, "Y", "i,i");
    check_axes("Y[i,j] = exp(X[i,j]) / sum[j](exp(X[i,j]))", NULL, "X", "i,j");
    /* an index name is one dim throughout, */
    check_axes("Y[b] = X[b]; Z[b] = W[b]", NULL, "W", "b");
    check_axes("Y[i] = sum[k](X[k]); Z[i] = sum[k](W[k,i])", NULL, "W", "k,i");
    /* except for a binder that shadows an index of another size */
    check_axes("Y[i,j] = X[i,j] + sum[j](W[j,i])", NULL, "W", "j_2,i");
    check_axes("Y[i,j] = X[i,j] + sum[j](W[j,i]); Z[j_2] = V[j_2]", NULL, "W", "j_3,i");
    /* a binder that shadows and is tied to nothing runs over what it shadows */
    check_axes("Y[i,j] = X[i,j + 1] / sum[j](X[i,j + 1])", NULL, "Y", "i,j");
    /* axes with other subscripts need only be long enough, */
    check_axes("Y[i] = X[i + 1] + X[i]", NULL, "X", "X.0+");
    check_axes("Y[t,d] = E[ids[t],d]", NULL, "E", "E.0+,d");
    check_axes("Y[t] = sum[r](X[2 * t + r] * W[r])", NULL, "X", "X.0+");
    check_axes("G[ids[i],d] += D[i,d]", NULL, "G", "G.0+,d");
    check_axes("C[slot[t],d] = K[t,d]; Y[i,d] = C[i,d]", NULL, "C", "C.0+,d");
    /* unless an index has its size from nowhere else, */
    check_axes("L[i] = log(sum[j](exp(X[i,j]))) - X[i,t[i]]", NULL, "X", "i,j");
    check_axes("C[slot[t],d] = K[t,d]; S[d] = sum[i](C[i,d])", NULL, "C", "i,d");
    /* or the left side says it */
    check_axes("let t[j] = X[j]; Y[i] = t[i + 1] - t[i]", NULL, "t", "j");
    check_axes("T[j] = X[j]; Y[i] = T[i + 1]", NULL, "T", "j");
}

static void test_sizes(void **state)
{
    (void)state;
    md_fx_formula *f = front_make("size n=4; Y[b,n] = sum[k](X[b,k] * W[n,k]) * E[n + 1, size(k) - 1]",
                                  &(md_fx_options){.sizes = "k=3..7 b=1.., E.1=9, k=2..5"});
    assert_int_equal(f->dim[dim_of(f, "n")].size, 4);
    assert_int_equal(f->dim[dim_of(f, "E.1")].size, 9);
    assert_int_equal(f->dim[dim_of(f, "k")].size, -1);
    assert_int_equal(f->dim[dim_of(f, "k")].lo, 3);
    assert_int_equal(f->dim[dim_of(f, "k")].hi, 5);
    assert_int_equal(f->dim[dim_of(f, "b")].lo, 1);
    assert_true(f->dim[dim_of(f, "b")].hi == INT64_MAX);
    assert_int_equal(f->dim[dim_of(f, "E.0")].lo, 0);
    md_fx_formula_destroy(&f);
    /* any index name of a dim will do, and ranges may meet in a point */
    f = front_make("Y[i,j] = exp(X[i,j]) / sum[k](exp(X[i,k]))", &(md_fx_options){.sizes = "k=8, i=1..3, i=3..4"});
    assert_int_equal(f->dim[dim_of(f, "j")].size, 8);
    assert_int_equal(f->dim[dim_of(f, "i")].size, 3);
    md_fx_formula_destroy(&f);
    /* a dim without an axis is fine when it is static, 0 included */
    f = front_make("Y[t] = sum[r](X[t + r])", &(md_fx_options){.sizes = "r=0"});
    assert_int_equal(f->dim[dim_of(f, "r")].size, 0);
    md_fx_formula_destroy(&f);
}

static void check_arguments(const char *formula, const char *wanted)
{
    md_fx_formula *f = front_make(formula, NULL);
    md_strbuf b = {0};
    for (int32_t i = 0; i < f->n_args; ++i) {
        const md_fx_arg a = f->args[i];
        const md_fx_tensor *const t = &f->tensor[a.id];
        if (a.is_scalar)
            md_strbuf_printf(&b, "%s%s=%s", i ? " " : "", f->scalar[a.id].name, md_dtype_name(f->scalar[a.id].type));
        else
            md_strbuf_printf(&b, "%s%s%s:%s%s", i ? " " : "", t->role == MD_FX_OUTPUT ? ">" : "", t->name,
                             md_dtype_name(t->dtype), t->is_updated ? "+" : "");
    }
    if (strcmp(md_strbuf_text(&b), wanted) != 0)
        fail_msg("%s: arguments %s, not %s", formula, md_strbuf_text(&b), wanted);
    md_strbuf_finish(&b);
    md_fx_formula_destroy(&f);
}

static void test_arguments(void **state)
{
    (void)state;
    check_arguments("Y[b,n] = gelu(sum[k](X[b,k] * W[n,k]) + bias[n])", ">Y:f32 X:f32 W:f32 bias:f32");
    check_arguments("let t[i] = X[i]; scalar a; Y[i] = t[i] * a * Z[i]; scalar b:i64, c:f64",
                    "X:f32 a=f32 >Y:f32 Z:f32 b=i64 c=f64");
    check_arguments("G[ids[i],d] += D[i,d]", ">G:f32+ ids:i64 D:f32");
    check_arguments("C[s:i32[t],d] = K:bf16[t,d]", ">C:f32+ s:i32 K:bf16");
    check_arguments("Y[i] += X[i]", ">Y:f32+ X:f32");
    check_arguments("Y[i] max= X[i]", ">Y:f32+ X:f32");
    /* an index tensor is i64; data that is only compared with an index is data */
    check_arguments("Y[i] = X[p[q[i]]] + where(i < n[i], 1, 0)", ">Y:f32 X:f32 p:i64 q:i64 n:f32");
    /* a declaration at any appearance holds for all */
    check_arguments("Y[i] = X[i] + X:f16[i] + X[i]; Z:u8[i] = Y[i]", ">Y:f32 X:f16 >Z:u8");
}

static void check_output(const char *formula, md_dtype fallback, md_dtype wanted)
{
    md_fx_formula *f = front_make(formula, &(md_fx_options){.dtype = fallback});
    const md_fx_tensor *const t = &f->tensor[f->stmt[f->n_stmts - 1].tensor];
    if (t->dtype != wanted)
        fail_msg("%s (default %s): %s, not %s", formula, md_dtype_name(fallback), md_dtype_name(t->dtype),
                 md_dtype_name(wanted));
    md_fx_formula_destroy(&f);
}

static void test_output_types(void **state)
{
    (void)state;
    static const struct {
        const char *value;
        md_dtype as_f32, as_bf16, as_f64, as_i32;
    } cases[] = {
        {"X[i]", MD_F32, MD_BF16, MD_F64, MD_I32},
        {"X[i] + 1", MD_F32, MD_BF16, MD_F64, MD_I64},
        {"X[i] + 0.5", MD_F32, MD_BF16, MD_F64, MD_F32},
        {"X[i] / 2", MD_F32, MD_BF16, MD_F64, MD_F32},
        {"X[i] // 2", MD_F32, MD_BF16, MD_F64, MD_I64},
        {"exp(X[i])", MD_F32, MD_BF16, MD_F64, MD_F32},
        {"X[i] < 1", MD_BOOL, MD_BOOL, MD_BOOL, MD_BOOL},
        {"argmax[j](W[i,j])", MD_I64, MD_I64, MD_I64, MD_I64},
        {"any[j](W[i,j])", MD_BOOL, MD_BOOL, MD_BOOL, MD_BOOL},
        {"max[j](W[i,j])", MD_F32, MD_BF16, MD_F64, MD_I64},
        {"mean[j](W[i,j])", MD_F32, MD_BF16, MD_F64, MD_F32},
        {"var[j](W[i,j])", MD_F32, MD_BF16, MD_F64, MD_F32},
        {"cumsum[i](X[i])", MD_F32, MD_BF16, MD_F64, MD_I64},
        {"sum[j](W[i,j] > 0)", MD_I64, MD_I64, MD_I64, MD_I64},
        {"N:i32[i]", MD_I32, MD_I32, MD_I32, MD_I32},
        {"N:u8[i] + N[i]", MD_I64, MD_I64, MD_I64, MD_I64},
        {"N:u8[i] + X[i]", MD_F32, MD_BF16, MD_F64, MD_I64},
        {"D:f64[i] * X[i]", MD_F64, MD_F64, MD_F64, MD_F64},
        {"H:f16[i]", MD_F32, MD_BF16, MD_F64, MD_F32},
        {"f64(X[i])", MD_F64, MD_F64, MD_F64, MD_F64},
        {"bf16(D:f64[i])", MD_F32, MD_BF16, MD_F64, MD_F32},
        {"i32(X[i])", MD_I64, MD_I64, MD_I64, MD_I64},
        {"bool(X[i])", MD_BOOL, MD_BOOL, MD_BOOL, MD_BOOL},
        {"i", MD_I64, MD_I64, MD_I64, MD_I64},
        {"i / 2", MD_F32, MD_BF16, MD_F64, MD_F32},
        {"size(i)", MD_I64, MD_I64, MD_I64, MD_I64},
        {"pow(i, 2)", MD_I64, MD_I64, MD_I64, MD_I64},
        {"pow(i, 0.5)", MD_F32, MD_BF16, MD_F64, MD_F32},
        {"min(i, 3)", MD_I64, MD_I64, MD_I64, MD_I64},
        {"where(i < 3, X[i], 0)", MD_F32, MD_BF16, MD_F64, MD_I64},
        {"where(i < 3, i, 0.5)", MD_F32, MD_BF16, MD_F64, MD_F32},
        {"where(i < 3, true, i > 7)", MD_BOOL, MD_BOOL, MD_BOOL, MD_BOOL},
        {"where(i < 3, true, 7)", MD_I64, MD_I64, MD_I64, MD_I64},
        {"where(i < 3, 1, 0)", MD_F32, MD_BF16, MD_F64, MD_I32},
        {"1", MD_F32, MD_BF16, MD_F64, MD_I32},
        {"0.5", MD_F32, MD_BF16, MD_F64, MD_F32},
        {"isnan(X[i])", MD_BOOL, MD_BOOL, MD_BOOL, MD_BOOL},
        {"not X[i]", MD_BOOL, MD_BOOL, MD_BOOL, MD_BOOL},
        {"-(i < 3)", MD_I64, MD_I64, MD_I64, MD_I64},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
        char text[200];
        snprintf(text, sizeof text, "Z[i] = X[i] + V[i] + sum[j](W[i,j]); Y[i] = %s", cases[i].value);
        check_output(text, MD_F32, cases[i].as_f32);
        check_output(text, MD_BF16, cases[i].as_bf16);
        check_output(text, MD_F64, cases[i].as_f64);
        check_output(text, MD_I32, cases[i].as_i32);
    }
}

static void test_lets(void **state)
{
    (void)state;
    md_fx_formula *f = front_make(
        "let a[i] = X[i]; let b:bf16[i] = a[i]; let c[i] = i; let d[i] = 1; Y[i] = a[i] + b[i] + c[i] + d[i]",
        &(md_fx_options){.dtype = MD_F16});
    const md_fx_tensor *const a = &f->tensor[tensor_of(f, "a")], *const b = &f->tensor[tensor_of(f, "b")];
    assert_int_equal(a->role, MD_FX_TEMP);
    assert_int_equal(a->dtype, MD_F32); /* the compute type: nothing is rounded */
    assert_false(a->is_declared);
    assert_int_equal(b->dtype, MD_BF16);
    assert_true(b->is_declared);
    assert_int_equal(f->tensor[tensor_of(f, "c")].dtype, MD_I64);
    assert_int_equal(f->tensor[tensor_of(f, "d")].dtype, MD_F32);
    assert_int_equal(f->n_args, 2);
    assert_int_equal(a->stmt, 0);
    assert_int_equal(f->tensor[tensor_of(f, "X")].stmt, -1);
    md_fx_formula_destroy(&f);
}

/* Reaches as "tensor.axis: subscript | guard | guard", one a line. */
static void check_reaches(const char *formula, const char *wanted)
{
    md_fx_formula *f = front_make(formula, NULL);
    md_strbuf b = {0};
    for (int32_t i = 0; i < f->n_reaches; ++i) {
        const md_fx_reach *const r = &f->reach[i];
        md_strbuf_printf(&b, "%s.%d: ", f->tensor[r->tensor].name, r->axis);
        md_fx_print_node(&b, f, r->subscript);
        for (int32_t k = 0; k < r->n_guards; ++k) {
            md_strbuf_add(&b, " | ");
            md_fx_print_node(&b, f, r->guard[k]);
            assert_int_equal(r->guard[k]->type, MD_BOOL);
        }
        md_strbuf_add(&b, "\n");
        assert_true(r->line == 1 && r->column > 1);
    }
    if (strcmp(md_strbuf_text(&b), wanted) != 0)
        fail_msg("%s\nreaches:\n%swanted:\n%s", formula, md_strbuf_text(&b), wanted);
    md_strbuf_finish(&b);
    md_fx_formula_destroy(&f);
}

static void test_reaches(void **state)
{
    (void)state;
    check_reaches("Y[i] = X[i]", "");
    check_reaches("Y[t,d] = E[ids[t],d]", "");
    check_reaches("Y[i] = X[i + 1] + X[i]", "X.0: i + 1\nX.0: i\n");
    check_reaches("Y[h,d] = X[h // 4, d % 2]", "X.0: h // 4\nX.1: d % 2\n");
    check_reaches("Y[i] = X[0] + X[0] + X[-1 + 3]", "X.0: 0\nX.0: 2\n");
    check_reaches("Y[i] = where(i > 0, X[i - 1], X[i])", "X.0: i - 1 | i > 0\nX.0: i | i <= 0\n");
    check_reaches("Y[i] = where(i > 0 and i < 9, X[i - 1], X[i])",
                  "X.0: i - 1 | i > 0 | i < 9\nX.0: i | not (i > 0 and i < 9)\n");
    check_reaches("Y[i] = where(i < 1 or i >= 9, X[0], X[i - 1])",
                  "X.0: 0 | i < 1 or i >= 9\nX.0: i - 1 | i >= 1 | i < 9\n");
    check_reaches("Y[i] = where(not i == 3, X[i + 1], X[i + 2])", "X.0: i + 1 | i != 3\nX.0: i + 2 | i == 3\n");
    /* among reals, "not less" is not "greater or equal": there are NaNs */
    check_reaches("Y[i] = where(V[i] < 1, X[i + 1], X[i + 2])", "X.0: i + 1 | V[i] < 1\nX.0: i + 2 | not V[i] < 1\n");
    /* the condition itself is under the outer guards only, and guards nest */
    check_reaches("Y[i] = where(i > 0, where(X[i - 1] > 0, X[i + 1], 0), 0)",
                  "X.0: i - 1 | i > 0\nX.0: i + 1 | i > 0 | X[i - 1] > 0\n");
    check_reaches("Y[i] = sum[r](where(i + r > 2, X[i + r - 3] * W[r], 0))", "X.0: i + r - 3 | i + r > 2\n");
    /* an axis that the left side of a let or an output made */
    check_reaches("let t[j] = X[j]; Y[i] = t[i + 1]", "t.0: i + 1\n");
    /* subscripts that read tensors are checked element by element, those inside them here */
    check_reaches("Y[i] = X[p[i + 1]]", "p.0: i + 1\n");
    check_reaches("G[p[i + 1],d] += D[i,d]", "p.0: i + 1\n");
    check_reaches("L[i] = log(sum[j](exp(X[i,j]))) - X[i,t[i]]", "");
    check_reaches("Y[i] = X[size(i) - 1 - i]", "X.0: size(i) - 1 - i\n");
}

/* Fresh indices, the order of the free ones, scopes. */
static void test_indices(void **state)
{
    (void)state;
    md_fx_formula *f = front_make("Y[i,j] = sum[k](X[i,k]) + sum[k](X[i,k]) + V[j]; G[p[b,a],a] += D[a,b]", NULL);
    const md_fx_stmt *const y = &f->stmt[0], *const g = &f->stmt[1];
    assert_int_equal(y->n_free, 2);
    assert_true(md_fx_is_index(y->subscript[0], y->free[0]) && md_fx_is_index(y->subscript[1], y->free[1]));
    assert_int_equal(g->n_free, 2); /* in order of appearance on the left side */
    assert_string_equal(f->index[g->free[0]].name, "b");
    assert_string_equal(f->index[g->free[1]].name, "a");
    assert_int_equal(g->assign, MD_FX_ADD_TO);
    assert_int_equal(g->subscript[0]->kind, MD_FX_LOAD);
    assert_int_equal(f->n_indices, 6);
    int n_bound = 0;
    for (int32_t i = 0; i < f->n_indices; ++i)
        n_bound += f->index[i].is_bound;
    assert_int_equal(n_bound, 2);
    const md_fx_node *const sum = y->value->arg[0];
    assert_int_not_equal(sum->arg[0]->bound[0], sum->arg[1]->bound[0]);
    assert_true(md_fx_equal(f, sum->arg[0], sum->arg[1]));
    md_fx_formula_destroy(&f);

    /* a scan runs along the very index of the left side; a reduction inside may shadow it */
    f = front_make("Y[i,j] = cumsum[j](X[i,j] / sum[j](X[i,j]))", NULL);
    const md_fx_node *const scan = f->stmt[0].value;
    assert_int_equal(scan->kind, MD_FX_SCAN);
    assert_int_equal(scan->bound[0], f->stmt[0].free[1]);
    assert_int_not_equal(scan->arg[0]->arg[1]->bound[0], scan->bound[0]);
    assert_int_equal(f->n_dims, 2);
    md_fx_formula_destroy(&f);
}

static void test_options_are_kept(void **state)
{
    (void)state;
    char text[] = "Y[i] = X[i]";
    md_fx_formula *f = front_make(text, &(md_fx_options){.bounds = MD_BOUNDS_CLAMP});
    text[0] = 'Z';
    assert_string_equal(f->text, "Y[i] = X[i]");
    assert_string_equal(f->tensor[0].name, "Y");
    assert_int_equal(f->bounds, MD_BOUNDS_CLAMP);
    md_fx_formula_destroy(&f);
    assert_null(f);
    md_fx_formula_destroy(&f);
    md_fx_formula_destroy(NULL);
}

/* Literals take the type of what they meet, whatever lies between. */
static void test_literals(void **state)
{
    (void)state;
    md_fx_formula *f = front_make("Y[i] = D:f64[i] * (1 / 3 + where(X[i] > 0, 0.1, 2)) + f64(X[i] * 0.1)", NULL);
    const md_fx_node *const weak = f->stmt[0].value->arg[0]->arg[1];
    assert_int_equal(weak->type, MD_F64);
    assert_true(weak->arg[0]->num == 1.0 / 3.0);
    assert_true(weak->arg[1]->arg[1]->num == 0.1 && weak->arg[1]->arg[1]->type == MD_F64);
    assert_true(weak->arg[1]->arg[2]->num == 2.0);
    const md_fx_node *const strong = f->stmt[0].value->arg[1]->arg[0]->arg[1];
    assert_int_equal(strong->type, MD_F32);
    assert_true(strong->num == (double)0.1f); /* what a kernel computes with */
    md_fx_formula_destroy(&f);
}

static void check_warnings(const char *text, const char *wanted)
{
    md_fx_formula *f = front_make(text, NULL);
    if (f->n_warnings != (wanted != NULL))
        fail_msg("%s: %d warnings", text, f->n_warnings);
    if (wanted && strcmp(f->warning[0], wanted) != 0)
        fail_msg("%s\n  warns: %s\n  wanted: %s", text, f->warning[0], wanted);
    md_fx_formula_destroy(&f);
}

/* A reduction that binds an index of the left side is a warning where the right side has no other use of that index. */
static void test_shadow_warnings(void **state)
{
    (void)state;
    check_warnings("Y[i] = sum[i](X[i])",
                   "1:12: 'i' is bound here and hides the index 'i' of 'Y', so 'Y' gets the same value at every 'i'; "
                   "give one of them another name, or leave 'i' out on the left side\n  Y[i] = sum[i](X[i])\n  "
                   "           ^");
    check_warnings("let m[i,j] = mean[j](X[i,j]);\nY[i,j] = X[i,j] - m[i,j]",
                   "1:19: 'j' is bound here and hides the index 'j' of 'm', so 'm' gets the same value at every 'j'; "
                   "give one of them another name, or leave 'j' out on the left side\n  let m[i,j] = "
                   "mean[j](X[i,j]);\n                    ^");
    check_warnings("Y[i] = X[i] - sum[i](X[i])", NULL);
    check_warnings("Y[i] = sum[k](X[k])", NULL); /* says that it does so */
    check_warnings("Y[i,j] = exp(X[i,j]) / sum[j](exp(X[i,j]))", NULL);
    check_warnings("Y[i,j] = cumsum[j](X[i,j] / sum[j](X[i,j]))", NULL);
    check_warnings("Y[i] = sum[j](X[i,j]); Z[i] = sum[k](X[i,k])", NULL);
    check_warnings("Y[i] = X[i]; Z[j] = Y[j] * sum[i](X[i])", NULL); /* i is no index of Z */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_dims),      cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_arguments), cmocka_unit_test(test_output_types),
        cmocka_unit_test(test_lets),      cmocka_unit_test(test_reaches),
        cmocka_unit_test(test_indices),   cmocka_unit_test(test_options_are_kept),
        cmocka_unit_test(test_literals),  cmocka_unit_test(test_shadow_warnings),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
