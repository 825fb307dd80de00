/* What md_fx_bind says about wrong arguments, word for word. */
#include "base/dtype.h"
#include "expr/eval/eval.h"
#include "support/check.h"

static float memory[64];

typedef struct bind_case {
    const char *formula, *sizes;
    const char *args; /* "[2,3] [3] 1.5": tensors as their sizes, scalars as numbers, and the marks below */
    const char *message; /* NULL: accepted */
} bind_case;

#define SOFTMAX "let e[i,j] = exp(X[i,j] - max[k](X[i,k])); Y[i,j] = e[i,j] / sum[j](e[i,j])"
#define MAX_OF_NOTHING "dim 'k' has size 0, but the max of nothing has no value"
#define MATMUL "Y[m,n] = sum[k](X[m,k] * W[n,k])"
#define BIG "1099511627776"

/* Marks in front of a tensor: ! data is NULL, ? the tensor itself is, d: its dtype is f64, u: unaligned; behind it:
 * /4,1 strides. */
static const bind_case cases[] = {
    /* what is not read need not be there */
    {"Y[d] = where(d % 2 == 0, X[d+1], X[d-1])", NULL, "[8] [8]", NULL},
    {"Y[d] = where(d % 2 == 0, X[d+1], X[d-1])", NULL, "[7] [7]",
     "argument 1 'X': axis 0 has size 7, but subscript 'd + 1' reaches 7"},
    {"Y[d] = where(d != 0, X[d-1], 0)", NULL, "[5] [4]", NULL},
    {"Y[d] = where(d == size(X.0)-1, 0, X[d+1])", NULL, "[6] [6]", NULL},
    {"Y[d] = where(d // 2 > 0, X[d-2], 0)", NULL, "[6] [4]", NULL},
    {"Y[d] = where(d % 4 < 3, X[d+1], 0)", NULL, "[8] [8]", NULL},
    {"Y[d] = where((d + 0) // 2 < 2, X[(d + 0) // 2], 0)", NULL, "[9] [2]", NULL},
    {"Y[d] = where(d < 3 or d > 5, 0, X[d-3])", NULL, "[9] [3]", NULL},
    {"Y[d] = where(M[d] > 0, X[d-1], 0)", NULL, "[9] [9] [2]", NULL},
    {"let C:bool[d] = d > 0; Y[d] = where(C[d], X[d-1], 0)", NULL, "[9] [8]", NULL},
    {"Y[i,j] = where(3*i + 5*j == 8, X[i+0], 0)", NULL, "[3,3] [2]", NULL},
    {"Y[i,j] = where(3*i + 5*j == 8, X[i+0], 0)", NULL, "[3,3] [1]",
     "argument 1 'X': axis 0 has size 1, but subscript 'i + 0' reaches 1"},
    {"Y[d] = X[clamp(d - 2, 0, size(X.0) - 1)]", NULL, "[9] [3]", NULL},
    {"Y[d] = X[abs(d - 4)]", NULL, "[9] [5]", NULL},
    {"Y[d] = X[abs(d - 4)]", NULL, "[9] [4]",
     "argument 1 'X': axis 0 has size 4, but subscript 'abs(d - 4)' reaches 4"},
    {"scalar n:i64; Y[d] = X[d + n]", NULL, "2 [9] [1]", NULL},
    /* concatenations */
    {"Y[j] = where(j < 12, P[j], K[j-12])", NULL, "[20] [12] [8]", NULL},
    {"Y[j] = where(j < 12, P[j], K[j-12])", NULL, "[20] [11] [8]",
     "argument 1 'P': axis 0 has size 11, but subscript 'j' reaches 11"},
    {"Y[j] = where(j < 12, P[j], K[j-12])", NULL, "[20] [12] [7]",
     "argument 2 'K': axis 0 has size 7, but subscript 'j - 12' reaches 7"},
    {"Y[i,j] = where(j >= size(P.1), K[i,j-size(P.1)], P[i,j])", NULL, "[3,20] [3,8] [3,12]", NULL},
    {"Y[j] = where(j < 4, A[j], where(9 > j, B[j-4], C[j-9]))", NULL, "[10] [4] [5] [1]", NULL},
    {"Y[j] = where(j < 4, A[j], 0)", NULL, "[10] [4]",
     "argument 1 'A': axis 0 (dim 'j') has size 4, but argument 0 'Y' gave j = 10; they are A[j] and Y[j]"},
    {MATMUL, NULL, "[2,5] [2,3] [5,3]", NULL},
    {MATMUL, NULL, "[2,5] [2,3]", "2 arguments given, but the op takes 3: Y, X, W"},
    {MATMUL, NULL, "[2,5]", "1 argument given, but the op takes 3: Y, X, W"},
    {MATMUL, NULL, "[2,5] [2,32] [5,64]",
     "argument 2 'W': axis 1 (dim 'k') has size 64, but argument 1 'X' gave k = 32; they are W[n,k] and X[m,k]"},
    {MATMUL, NULL, "[2,5] [3,3] [5,3]",
     "argument 1 'X': axis 0 (dim 'm') has size 3, but argument 0 'Y' gave m = 2; they are X[m,k] and Y[m,n]"},
    {MATMUL, "k=4", "[2,5] [2,3] [5,3]", "argument 1 'X': axis 1 (dim 'k') has size 3, but k is static: 4"},
    {MATMUL, "m=1..4", "[5,5] [5,3] [5,3]", "argument 0 'Y': axis 0 (dim 'm') has size 5, outside its range 1..4"},
    {MATMUL, "m=1..4", "[0,5] [0,3] [5,3]", "argument 0 'Y': axis 0 (dim 'm') has size 0, outside its range 1..4"},
    {MATMUL, "m=1..4", "[4,5] [4,3] [5,3]", NULL},
    {MATMUL, NULL, "[2,5] [2,3,1] [5,3]", "argument 1 'X' has rank 3, expected 2"},
    {MATMUL, NULL, "[2,5] d:[2,3] [5,3]", "argument 1 'X' has dtype f64, expected f32"},
    {MATMUL, NULL, "[2,5] 2.5 [5,3]", "argument 1 'X' is a tensor, but a real scalar was given"},
    {MATMUL, NULL, "[2,5] 2 [5,3]", "argument 1 'X' is a tensor, but an integer scalar was given"},
    {MATMUL, NULL, "[2,5] - [5,3]", "argument 1 'X' is a tensor, but nothing was given"},
    {MATMUL, NULL, "[2,5] ? [5,3]", "argument 1 'X': the tensor is NULL"},
    {MATMUL, NULL, "[2,5] ![2,3] [5,3]", "argument 1 'X': data is NULL"},
    {MATMUL, NULL, "![0,5] ![0,3] [5,3]", NULL},
    {MATMUL, NULL, "[2,5] u:[2,3] [5,3]", "argument 1 'X': data is not aligned to its 4-byte elements"},
    {MATMUL, NULL, "[2,5] [2,-3] [5,3]", "argument 1 'X': axis 1 has size -3"},
    {MATMUL, NULL, "[2,5] [2,3]/-3,1 [5,3]",
     "argument 1 'X': axis 0 has stride -3; strides must not be negative: read it reversed, as in "
     "X[size(i)-1-i]"},
    {MATMUL, NULL, "[2,5]/0,1 [2,3] [5,3]",
     "argument 0 'Y': axis 0 has stride 0, but an output needs a place for each element"},
    {MATMUL, NULL, "[1,5]/0,1 [1,3] [5,3]", NULL},
    {MATMUL, NULL, "[2,0]/0,0 [2,3] [0,3]", NULL},
    {MATMUL, NULL, "[2,5] [2,3]/0,1 [5,3]/0,0", NULL},
    {"Y[i,j] = X[i,j]", NULL, "[" BIG "," BIG "] [2,2]", "argument 0 'Y': its elements span more than 2^63 bytes"},
    {"Y[i,j] = X[i,j]", NULL, "[2,2] [2,2]/9000000000000000000,1",
     "argument 1 'X': its elements span more than 2^63 bytes"},
    {"Y[i,j] = X[i,j]", NULL, "[0," BIG "] [0," BIG "]", NULL},
    {"scalar a; Y[i] = a * X[i]", NULL, "1.5 [2] [2]", NULL},
    {"scalar a; Y[i] = a * X[i]", NULL, "1 [2] [2]", NULL},
    {"scalar a; Y[i] = a * X[i]", NULL, "[2] [2] [2]",
     "argument 0 'a' is a scalar of type f32, but a tensor was given"},
    {"scalar a; Y[i] = a * X[i]", NULL, "- [2] [2]", "argument 0 'a' is a scalar of type f32, but nothing was given"},
    {"scalar n:i64; Y[i] = n * X[i]", NULL, "1.5 [2] [2]",
     "argument 0 'n' is an integer scalar of type i64, but a real scalar was given"},
    {"Y[i] = X[i+1] - X[i]", NULL, "[9] [10]", NULL},
    {"Y[i] = X[i+1] - X[i]", NULL, "[9] [12]", NULL},
    {"Y[i] = X[i+1] - X[i]", NULL, "[9] [9]", "argument 1 'X': axis 0 has size 9, but subscript 'i + 1' reaches 9"},
    {"Y[i] = X[i-1]", NULL, "[9] [9]", "argument 1 'X': axis 0 has size 9, but subscript 'i - 1' reaches -1"},
    {"Y[i] = where(i > 0, X[i-1], 0)", NULL, "[9] [8]", NULL},
    {"Y[i] = where(i > 0, X[i-1], 0)", NULL, "[9] [7]",
     "argument 1 'X': axis 0 has size 7, but subscript 'i - 1' reaches 7"},
    {"Y[i] = X[i+1]", NULL, "[0] ![0]", NULL},
    {"Y[i] = sum[r](X[2*i+r])", "r=3", "[4] [9]", NULL},
    {"Y[i] = sum[r](X[2*i+r])", "r=3", "[4] [8]",
     "argument 1 'X': axis 0 has size 8, but subscript '2 * i + r' reaches 8"},
    /* a size that no tensor gives */
    {"Y[i] = sum[r](X[2*i+r])", NULL, "[4] [9] 3", NULL},
    {"Y[i] = sum[r](X[2*i+r])", NULL, "[4] [9] 0", NULL},
    {"Y[i] = sum[r](X[2*i+r])", NULL, "[4] [9] 4",
     "argument 1 'X': axis 0 has size 9, but subscript '2 * i + r' reaches 9"},
    {"Y[i] = sum[r](X[2*i+r])", NULL, "[4] [9]",
     "1:12: no tensor has an axis indexed by just 'r', so the call gives its size: md_i(size) behind the other "
     "arguments, r=size in Python\n  Y[i] = sum[r](X[2*i+r])\n             ^"},
    {"Y[i] = sum[r](X[2*i+r])", NULL, "[4] [9] 3.5",
     "argument 2 'r' is the size of dim 'r', but a real scalar was given"},
    {"Y[i] = sum[r](X[2*i+r])", NULL, "[4] [9] [3]", "argument 2 'r' is the size of dim 'r', but a tensor was given"},
    {"Y[i] = sum[r](X[2*i+r])", "r=0..2", "[4] [9] 3", "argument 2 'r': the size is 3, outside its range 0..2"},
    {"scalar a; Y[i] = a * sum[r,q](X[i+r-q])", NULL, "2.5 [4] [9] 1",
     "1:28: no tensor has an axis indexed by just 'q', so the call gives its size: md_i(size) behind the other "
     "arguments, q=size in Python\n  scalar a; Y[i] = a * sum[r,q](X[i+r-q])\n                             ^"},
    {"scalar a; Y[i] = a * sum[r,q](X[i+r-q])", NULL, "2.5 [4] [9] 1 1", NULL},
    {"let t[i] = X[i]; Y[i] = t[i+1]", NULL, "[4] [4]",
     "temporary 't': axis 0 has size 4, but subscript 'i + 1' reaches 4"},
    {"Y[i] = max[k](X[i,k])", NULL, "[2] [2,0]", "dim 'k' has size 0, but the max of nothing has no value"},
    {"Y[i] = 1.5 + argmin[k](X[i,k])", NULL, "[2] [2,0]", "dim 'k' has size 0, but the argmin of nothing has no value"},
    {"Y[i] = sum[k](X[i,k])", NULL, "[2] [2,0]", NULL},
    {"Y[i] = max[k](X[i,k])", NULL, "[0] [0,3]", NULL},
    /* the max of nothing is an error only where an element needs it */
    {SOFTMAX, NULL, "[3,0] [3,0]", NULL},
    {"Y[i] = sum[k](exp(X[i,k] - max[l](X[i,l])))", NULL, "[3] [3,0]", NULL},
    {"let m[i] = max[k](X[i,k]); Y[i,j] = X[i,j] - m[i]", NULL, "[3,0] [3,0]", NULL},
    {"let m[i] = max[k](X[i,k]); let n[i] = m[i] + 1; Y[i,j] = X[i,j] - n[i]", NULL, "[3,0] [3,0]", NULL},
    {"let m[i] = max[k](X[i,k]); Y[i] = 1 + m[i]", NULL, "[3,0] [3]", MAX_OF_NOTHING},
    {"let m[i] = max[k](X[i,k]); Y[i,j] = X[i,j] - m[i]; Z[i] = m[i]", NULL, "[3,0] [3,0] [3]", MAX_OF_NOTHING},
    {"Y[i] = log(sum[k](exp(X[i,k] - max[l](X[i,l])))) + max[k](X[i,k])", NULL, "[3] [3,0]", MAX_OF_NOTHING},
    {"Y[i] = where(size(k) > 0, max[k](X[i,k]), -inf)", NULL, "[3] [3,0]", NULL},
    {"Y[i] = where(size(k) == 0 and i >= 0, max[k](X[i,k]), -inf)", NULL, "[3] [3,0]", MAX_OF_NOTHING},
    {"Y[i] = where(size(k) == 0, max[k](X[i,k]), -inf)", NULL, "[3] [3,0]", MAX_OF_NOTHING},
    {"Y[i] += max[k](X[i,k])", NULL, "[3] [3,0]", MAX_OF_NOTHING},
    {"L[] = sum[k](X[k])", NULL, "[] [3]", NULL},
    {"L[] = sum[k](X[k])", NULL, "[1] [3]", "argument 0 'L' has rank 1, expected 0"},
};

static int32_t read_list(int64_t *out, const char **text, char end)
{
    int32_t n = 0;
    while (**text != end && **text != ' ' && **text != 0) {
        char *next;
        out[n++] = strtoll(*text, &next, 10);
        *text = *next == ',' ? next + 1 : next;
    }
    return n;
}

static const char *read_tensor(md_tensor *t, const char *text)
{
    const bool is_null = *text == '!', is_f64 = *text == 'd', is_odd = *text == 'u';
    int64_t size[MD_MAX_RANK];
    text = strchr(text, '[') + 1;
    const int32_t rank = read_list(size, &text, ']');
    *t = md_tensor_make(is_null  ? NULL
                        : is_odd ? (char *)memory + 1
                                 : (char *)memory,
                        is_f64 ? MD_F64 : MD_F32, rank, size);
    if (*++text == '/') {
        ++text;
        (void)read_list(t->stride, &text, ' ');
    }
    return text;
}

static int32_t read_args(md_arg *arg, md_tensor *tensor, const char *text)
{
    int32_t n = 0;
    for (; *text != 0; text += *text == ' ', n++) {
        char *end = (char *)text + 1;
        tensor[n] = (md_tensor){0};
        if (*text == '?')
            arg[n] = md_t(NULL);
        else if (*text == '-')
            arg[n] = (md_arg){0};
        else if (strchr("[!du", *text) != NULL)
            arg[n] = md_t(&tensor[n]), end = (char *)read_tensor(&tensor[n], text);
        else if (strtod(text, &end), memchr(text, '.', (size_t)(end - text)) != NULL)
            arg[n] = md_s(strtod(text, NULL));
        else
            arg[n] = md_i(strtoll(text, NULL, 10));
        text = end;
    }
    return n;
}

static void test_messages(void **state)
{
    (void)state;
    int n_failed = 0;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const bind_case *c = &cases[i];
        md_fx_formula *f = NULL;
        md_fx_binding b;
        md_arg arg[8];
        md_tensor tensor[8];
        const md_fx_options options = {.sizes = c->sizes};
        assert_ok(md_fx_formula_create(&f, c->formula, &options));
        const md_status status = md_fx_bind(&b, f, arg, read_args(arg, tensor, c->args));
        const char *said = status == MD_OK ? "accepted" : md_last_error();
        if (status != (c->message ? MD_INVALID_ARGUMENT : MD_OK) || (c->message && strcmp(said, c->message) != 0)) {
            print_error("%s with %s:\n    said     %s\n    expected %s\n", c->formula, c->args, said,
                        c->message ? c->message : "accepted");
            n_failed++;
        }
        md_fx_formula_destroy(&f);
    }
    assert_int_equal(n_failed, 0);
}

static void test_values(void **state)
{
    (void)state;
    md_fx_formula *f = NULL;
    md_fx_binding b;
    md_tensor y = md_tensor_make(memory, MD_F32, 2, (int64_t[]){2, 3}),
              x = md_tensor_make(memory, MD_F32, 1, (int64_t[]){9});
    const md_fx_options options = {.sizes = "r=4"};
    assert_ok(md_fx_formula_create(&f, "scalar a, n:i64; Y[i,j] = a * n * sum[r](X[i+j+r])", &options));
    assert_int_equal(f->n_args, 4);
    assert_ok(md_fx_bind(&b, f, (md_arg[]){md_s(0.1), md_i(7), md_t(&y), md_t(&x)}, 4));
    assert_true(b.real[0] == 0.1); /* rounded where it meets an f32 */
    assert_int_equal(b.integer[1], 7);
    for (int32_t d = 0; d < f->n_dims; d++) {
        const char *name = f->dim[d].name;
        assert_int_equal(b.size[d], name[0] == 'i' ? 2 : name[0] == 'j' ? 3 : name[0] == 'r' ? 4 : 9);
    }
    md_fx_formula_destroy(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_messages), cmocka_unit_test(test_values)};
    return cmocka_run_group_tests_name("bind", tests, NULL, NULL);
}
