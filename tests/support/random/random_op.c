/* Random formulas of the kinds that kernels are made for: products, rows, scans, gathers, scatters, chains. */
#include "support/random/random_op.h"

#include "expr/ops.h"
#include "support/check.h"

#include <math.h>

enum { MAX_LEAVES = 12 };

typedef struct writer {
    md_strbuf *out;
    uint64_t *state;
    int n_leaves;
    char leaf[MAX_LEAVES][40]; /* what an expression may read here */
    const char *row, *column; /* index names for comparisons; NULL where there is none */
} writer;

static int below(writer *w, int n)
{
    return (int)(check_random(w->state) % (uint64_t)n);
}

static bool chance(writer *w, int one_in)
{
    return below(w, one_in) == 0;
}

static void put(writer *w, const char *text)
{
    md_strbuf_add(w->out, text);
}

#define PUT(w, ...) md_strbuf_printf((w)->out, __VA_ARGS__)

static void may_read(writer *w, const char *text)
{
    if (w->n_leaves < MAX_LEAVES)
        (void)snprintf(w->leaf[w->n_leaves++], sizeof(w->leaf[0]), "%s", text);
}

static void read_nothing(writer *w)
{
    w->n_leaves = 0;
}

/* A dtype for data, or none: the op's default. */
static const char *any_dtype(writer *w)
{
    static const char *const types[] = {"", "", "", "", ":f32", ":bf16", ":f16", ":f64"};
    return types[below(w, 8)];
}

/* The last is drawn first. Draws in one call would be in the compiler's order. */
static void any_dtypes(writer *w, int n, const char *type[])
{
    while (n-- > 0)
        type[n] = any_dtype(w);
}

static void expression(writer *w, int depth);

static void leaf(writer *w)
{
    static const char *const constants[] = {"0.5", "2", "-1", "1.5", "0.125", "3"};
    if (w->n_leaves == 0 || chance(w, 6))
        put(w, constants[below(w, 6)]);
    else
        put(w, w->leaf[below(w, w->n_leaves)]);
}

/* The k-th function of one real operand, in the order of the table. */
static const md_fx_op_row *function_row(int k)
{
    for (md_fx_op op = MD_FX_NO_OP; op < MD_FX_N_OPS; op++) {
        const md_fx_op_row *row = md_fx_op_info(op);
        if (md_fx_op_is_function(op) && row->arity == 1 && row->rule != MD_FX_RULE_TEST && k-- == 0)
            return row;
    }
    return NULL;
}

/* A function of one operand, which is kept in the function's domain. */
static void function(writer *w, int depth)
{
    int n = 0;
    while (function_row(n))
        n++;
    const md_fx_op_row *row = function_row(below(w, n));
    const bool has_lo = row->lo < row->hi && isfinite(row->lo), has_hi = row->lo < row->hi && isfinite(row->hi);
    PUT(w, "%s(%s", row->name, has_lo && has_hi ? "clamp(" : has_lo ? "0.5 + abs(" : has_hi ? "min(" : "");
    expression(w, depth - 1);
    if (has_lo && has_hi)
        PUT(w, ", %g, %g)", row->lo, row->hi);
    else if (has_hi)
        PUT(w, ", %g)", row->hi);
    else if (has_lo)
        PUT(w, row->lo > 0 ? ") + %g" : ")", row->lo);
    put(w, ")");
}

static void condition(writer *w, int depth)
{
    static const char *const signs[] = {" > ", " < ", " >= ", " <= "};
    if (w->row && w->column && chance(w, 3)) {
        PUT(w, "%s%s%s", w->row, signs[below(w, 4)], w->column);
        return;
    }
    expression(w, depth - 1);
    put(w, signs[below(w, 4)]);
    expression(w, depth - 1);
}

static void expression(writer *w, int depth)
{
    static const char *const pairs[][3] = {{"(", " + ", ")"},       {"(", " - ", ")"},   {"", " * ", ""},
                                           {"min(", ", ", ")"},     {"max(", ", ", ")"}, {"", " / (abs(", ") + 0.5)"},
                                           {"fma(", ", 0.5, ", ")"}};
    const int kind = depth <= 0 ? 0 : below(w, 10);
    if (kind < 2) {
        leaf(w);
    } else if (kind < 5) {
        function(w, depth);
    } else if (kind < 9) {
        const int k = chance(w, 3) ? 3 + below(w, 4) : below(w, 3);
        put(w, k == 2 ? "(" : pairs[k][0]);
        expression(w, depth - 1);
        put(w, k == 2 ? ") * (" : k == 5 ? " / (abs(" : pairs[k][1]);
        expression(w, depth - 1);
        put(w, k == 2 ? ")" : pairs[k][2]);
    } else {
        put(w, "where(");
        condition(w, depth);
        put(w, ", ");
        expression(w, depth - 1);
        put(w, ", ");
        expression(w, depth - 1);
        put(w, ")");
    }
}

/* ---- kinds ---- */

static void pointwise(writer *w)
{
    static const char *const shapes[] = {"i", "i,j", "b,i,j", "a,b,i,j"};
    const char *shape = shapes[below(w, 4)];
    char text[40];
    const int n = 1 + below(w, 3), n_outputs = 1 + below(w, 2);
    put(w, chance(w, 3) ? "scalar s; " : "");
    const bool has_scalar = md_strbuf_text(w->out)[0] != 0;
    for (int k = 0; k < n; k++) {
        (void)snprintf(text, sizeof(text), "X%d[%s]", k, shape);
        may_read(w, text);
    }
    if (has_scalar)
        may_read(w, "s");
    w->row = strchr(shape, 'j') ? "i" : NULL;
    w->column = "j";
    for (int k = 0; k < n_outputs; k++) {
        /* every tensor is read once with its type: sizes and types do not depend on what the expression picks */
        PUT(w, "%sY%d%s[%s] = ", k ? "; " : "", k, any_dtype(w), shape);
        for (int x = 0; x < n && k == 0; x++) {
            const char *sign = chance(w, 2) ? "+" : "-";
            PUT(w, "X%d%s[%s] %s ", x, any_dtype(w), shape, sign);
        }
        put(w, k == 0 && has_scalar ? "s * " : "");
        expression(w, 2 + below(w, 3));
    }
}

static void broadcast(writer *w)
{
    const bool is_transposed = chance(w, 2), is_cube = chance(w, 3);
    PUT(w, "Y%s[%s] = ", any_dtype(w), is_transposed ? (is_cube ? "j,b,i" : "j,i") : is_cube ? "b,i,j" : "i,j");
    const char *type[3];
    any_dtypes(w, 3, type);
    PUT(w, "X%s[%s] + R%s[j] * C%s[i]%s - ", type[0], is_cube ? "b,i,j" : "i,j", type[1], type[2],
        is_cube ? " + B[b]" : "");
    may_read(w, is_cube ? "X[b,i,j]" : "X[i,j]");
    may_read(w, "R[j]");
    may_read(w, "C[i]");
    if (is_cube)
        may_read(w, "B[b]");
    w->row = "i", w->column = "j";
    expression(w, 3);
}

/* Levels of reductions over one axis, each reading what came before, then one value per element or per row. */
static void row(writer *w)
{
    static const char *const layouts[][3] = {
        {"i", "i,k", "i,j"}, {"i", "k,i", "j,i"}, {"b,i", "b,i,k", "b,i,j"}, {"b,i", "b,k,i", "b,j,i"}, {"", "k", "j"}};
    static const char *const reductions[] = {"sum", "sum",  "max",    "min",    "mean", "mean",
                                             "var", "prod", "argmax", "argmin", "any",  "all"};
    const int layout = below(w, 5), n_levels = 1 + below(w, 3);
    const char *outer = layouts[layout][0], *inner = layouts[layout][1], *elements = layouts[layout][2];
    const bool has_weights = chance(w, 2);
    const char *dtype = any_dtype(w);
    char text[40];
    for (int level = 0; level < n_levels; level++) {
        const int op = below(w, level == n_levels - 1 ? 12 : 7);
        read_nothing(w);
        (void)snprintf(text, sizeof(text), "X[%s]", inner);
        may_read(w, text);
        may_read(w, text);
        for (int k = 0; k < level; k++) {
            (void)snprintf(text, sizeof(text), "r%d[%s]", k, outer);
            may_read(w, text);
        }
        PUT(w, "let r%d[%s] = %s[k](", level, outer, reductions[op]);
        if (op == 7)
            put(w, "1 + 0.125 * tanh(");
        PUT(w, "X%s[%s] %s ", level == 0 ? dtype : "", inner, op >= 10 ? "> 1 and" : chance(w, 2) ? "+" : "*");
        if (op >= 10)
            condition(w, 1);
        else
            expression(w, 1 + below(w, 2));
        put(w, op == 7 ? ")); " : op == 6 && chance(w, 2) ? ", unbiased); " : "); ");
    }
    const bool per_row = chance(w, 4);
    PUT(w, "Y%s[%s] = ", any_dtype(w), per_row ? outer : elements);
    (void)snprintf(text, sizeof(text), "r%d[%s]", n_levels - 1, outer);
    if (per_row) {
        read_nothing(w);
    } else {
        (void)snprintf(w->leaf[0], sizeof(w->leaf[0]), "X[%s]", elements);
        PUT(w, "X[%s] * 0.5 + ", elements);
        w->n_leaves = 1;
        if (has_weights) {
            PUT(w, "G%s[j] - ", any_dtype(w));
            may_read(w, "G[j]");
        }
    }
    may_read(w, text);
    PUT(w, "where(%s > 1, %s, 1) * ", text, text);
    expression(w, 2);
}

static void softmax(writer *w)
{
    const char *dtype = any_dtype(w);
    const int kind = below(w, 5);
    static const char *const mask[] = {"", "", " + M[i,j]"};
    const char *m = mask[below(w, 3)];
    if (kind == 0)
        PUT(w, "Y[i,j] = exp(X%s[i,j] - max[k](X[i,k])) / sum[k](exp(X[i,k] - max[l](X[i,l])))", dtype);
    else if (kind == 1)
        PUT(w,
            "let x[i,j] = X%s[i,j] * 0.5%s; let m[i] = max[k](x[i,k]); let e[i,j] = exp(x[i,j] - m[i]); Y[i,j] = "
            "e[i,j] / sum[k](e[i,k])",
            dtype, m);
    else if (kind == 2)
        PUT(w,
            "let s[i,j] = where(j <= i, X%s[i,j], -inf); let m[i] = max[k](s[i,k]); Y[i,j] = exp(s[i,j] - m[i]) / "
            "sum[k](exp(s[i,k] - m[i]))",
            dtype);
    else if (kind == 3)
        PUT(w, "let m[i] = max[k](X%s[i,k]); L[i] = m[i] + log(sum[k](exp(X[i,k] - m[i]))); P[i] = L[i] - X[i,t[i]]",
            dtype);
    else
        PUT(w,
            "let m[i] = mean[k](X%s[i,k]); let v[i] = var[k](X[i,k]); Y%s[i,j] = (X[i,j] - m[i]) * rsqrt(v[i] + 1e-5) "
            "* G[j] + B[j]",
            dtype, any_dtype(w));
}

static void recurrence(writer *w)
{
    const bool is_column = chance(w, 2);
    PUT(w, is_column ? "H%s[i,j] = 0.9 * H[i+1,j] + " : "H%s[i,j] = X[i,j] / 4 * H[i,j-1] + ", any_dtype(w));
    expression(w, 2);
}

static void scan(writer *w)
{
    static const char *const scans[] = {"cumsum", "cumsum", "cummax", "cummin", "cumprod"};
    static const char *const options[] = {"", "", ", exclusive", ", reverse", ", exclusive, reverse"};
    const bool is_column = chance(w, 3);
    const int op = below(w, 7);
    if (op > 4) {
        recurrence(w);
        return;
    }
    PUT(w, "Y%s[i,j] = %s[%s](", any_dtype(w), scans[op], is_column ? "i" : "j");
    put(w, op == 4 ? "1 + 0.125 * tanh(" : "");
    PUT(w, "X%s[i,j] + ", any_dtype(w));
    may_read(w, "X[i,j]");
    expression(w, 2);
    PUT(w, "%s%s)", op == 4 ? ")" : "", options[below(w, 5)]);
    if (chance(w, 2) && op < 2) {
        put(w, " * 0.5 - ");
        expression(w, 2);
    }
}

static void gather(writer *w)
{
    const char *type = chance(w, 2) ? ":i32" : "", *t[3];
    w->row = "t", w->column = "d";
    const int kind = below(w, 4);
    any_dtypes(w, kind % 2 ? 3 : 2, t);
    if (kind == 0) {
        PUT(w, "Y%s[t,d] = E%s[ids%s[t],d] * P[d] + ", t[0], t[1], type);
        may_read(w, "P[d]");
        expression(w, 2);
    } else if (kind == 1) {
        PUT(w, "Y%s[t] = sum[d](E%s[ids%s[t],d] * Q%s[t,d])", t[0], t[1], type, t[2]);
    } else if (kind == 2) {
        PUT(w, "Y%s[t,d] = X%s[t,ids%s[t,d]] + ", t[0], t[1], type);
        may_read(w, "X[t,ids[t,d]]");
        expression(w, 2);
    } else {
        PUT(w, "Y%s[b,t,d] = E%s[ids%s[b,t],d] + P%s[t,d]", t[0], t[1], type, t[2]);
    }
}

static void scatter(writer *w)
{
    static const char *const assigns[] = {"=", "+=", "*=", "max=", "min="};
    const char *type = chance(w, 2) ? ":i32" : "";
    w->row = "t", w->column = "d";
    const char *of_d = any_dtype(w), *assign = assigns[below(w, 5)];
    PUT(w, "G%s[ids%s[t],d] %s D%s[t,d] + ", any_dtype(w), type, assign, of_d);
    may_read(w, "D[t,d]");
    expression(w, 2);
}

/* What is done to an element of a product: bias, residual, activation. */
static void epilogue(writer *w, const char *sum)
{
    const char *type[2];
    const int kind = below(w, 5);
    w->row = "m", w->column = "n";
    read_nothing(w);
    if (kind == 0) {
        put(w, sum);
    } else if (kind == 1) {
        PUT(w, "gelu(%s + c%s[n])", sum, any_dtype(w));
    } else if (kind == 2) {
        any_dtypes(w, 2, type);
        PUT(w, "%s * r%s[m] + R%s[m,n]", sum, type[0], type[1]);
    } else if (kind == 3) {
        PUT(w, "silu(%s) * sum[k](A[m,k] * V%s[n,k])", sum, any_dtype(w));
    } else {
        put(w, "c[n] + ");
        may_read(w, sum);
        may_read(w, "c[n]");
        expression(w, 3);
    }
}

static void product(writer *w)
{
    static const char *const b_layouts[] = {"n,k", "k,n"};
    if (chance(w, 5)) { /* other ranks: batches, dot products, a vector */
        static const char *const others[] = {"Y[b,m,n] = sum[k](A[b,m,k] * B[b,n,k])",
                                             "Y[] = sum[k](A[k] * B[k])",
                                             "Y[m] = sum[k](A[m,k] * x[k])",
                                             "Y[m,n] = sum[k,l](A[m,k,l] * B[n,k,l])",
                                             "Y[b,m,n] = relu(sum[k](A[b,m,k] * B[n,k]) + c[n])",
                                             "Y[n,m] = sum[k](A[m,k] * B[k,n])",
                                             "Y[m,n] = sum[k](A[m,k] * f32(B:u8[n,k])) * s[n]",
                                             "Y[m,n] = sum[k](A[m,k] * g[k] * B[n,k])"};
        put(w, others[below(w, 8)]);
        return;
    }
    const char *layout = b_layouts[below(w, 2)], *a = any_dtype(w), *b = chance(w, 2) ? a : any_dtype(w);
    PUT(w, "let p[m,n] = sum[k](A%s[m,k] * B%s[%s]); ", a, b, layout);
    PUT(w, "Y%s[m,n] = ", chance(w, 2) ? a : any_dtype(w));
    epilogue(w, "p[m,n]");
}

static void chain(writer *w)
{
    static const char *const texts[] = {
        "let h[m,n] = relu(sum[k](A[m,k] * B[n,k])); Y[m,p] = sum[n](h[m,n] * C[p,n])",
        "let s[i,j] = sum[d](Q[i,d] * K[j,d]) * 0.25; let m[i] = max[j](s[i,j]); let e[i,j] = exp(s[i,j] - m[i]); "
        "Y[i,d] = sum[j](e[i,j] * V[j,d]) / sum[j](e[i,j])",
        "let x[i,j] = X[i,j] + R[i,j]; let v[i] = mean[k](x[i,k] * x[i,k]); N[i,j] = x[i,j] * rsqrt(v[i] + 1e-5) * "
        "g[j]; S[i,j] = x[i,j]",
        "let c[j] = mean[i](X[i,j]); let d[i,j] = X[i,j] - c[j]; Y[j,k] = sum[i](d[i,j] * d[i,k])",
        "scalar lr, b1; M[i] = b1 * m[i] + (1 - b1) * g[i]; P[i] = p[i] - lr * M[i] / (sqrt(abs(M[i])) + 0.5)",
        "let t:bf16[i,j] = X[i,j] * 2; Y[i] = sum[j](t[i,j] * t[i,j])",
        "let s[i] = sum[k](X[i,k]); C[i] = cumsum[i](s[i]); Y[i] = s[i] / (abs(C[i]) + 1)",
        "let y[i,j] = X[i,j] * W[j]; Y[i,j] = where(i > 0, y[i,j] - P[i,j], 0); Z[j] = max[i](y[i,j])",
        "Y[i] = X[2*i] + X[2*i+1] * 0.5; Z[i] = where(i > 0, X[i-1], 0) + X[i//2]",
        "Y[h,w] = sum[r,s](X[h+r,w+s] * K[r,s])",
    };
    put(w, texts[below(w, 10)]);
}

/* ---- sums of products of 2 to 6 tensors ---- */

enum { MAX_LETTERS = 6, MAX_OPERANDS = 6 };

/* Letters "abcdef" that a tensor runs over: each at most once, some order. */
static int letters(writer *w, char *out, int n_letters, int most)
{
    int n = 0;
    unsigned used = 0;
    for (int wanted = 1 + below(w, most < n_letters ? most : n_letters); n < wanted;) {
        const int l = below(w, n_letters);
        if (!(used >> l & 1))
            out[n++] = (char)('a' + l);
        used |= 1U << l;
    }
    out[n] = 0;
    return n;
}

static void subscripts(writer *w, const char *letter)
{
    put(w, "[");
    for (int i = 0; letter[i]; i++)
        PUT(w, "%s%c", i ? "," : "", letter[i]);
    put(w, "]");
}

static void factors(writer *w, int n, char operand[MAX_OPERANDS][MAX_LETTERS + 1], const char *type)
{
    const bool is_whole = strcmp(type, ":i32") == 0 || strcmp(type, ":i8") == 0;
    for (int i = 0; i < n; i++) {
        const int kind = is_whole ? 0 : below(w, 8);
        put(w, i ? " * " : "");
        put(w, kind == 1 ? "exp(0.25 * " : kind == 2 ? "-" : kind == 3 ? "0.5 * " : "");
        PUT(w, "%c%s", 'A' + i, type);
        subscripts(w, operand[i]);
        put(w, kind == 1 ? ")" : "");
        if (kind == 4) {
            PUT(w, " / (2 + abs(D%d", i);
            subscripts(w, (char[]){operand[i][0], 0});
            put(w, "))");
        }
    }
}

static void append(char *text, char letter)
{
    const size_t n = strlen(text);
    text[n] = letter;
    text[n + 1] = 0;
}

typedef struct network {
    int n;
    char operand[MAX_OPERANDS][MAX_LETTERS + 1], result[MAX_LETTERS + 1], bound[MAX_LETTERS + 1];
} network;

/* Chains, trees and stars of tensors; letters that one tensor has alone. */
static void draw_network(writer *w, network *n)
{
    const int n_letters = 2 + below(w, MAX_LETTERS - 1);
    const bool is_chain = chance(w, 3);
    char seen[MAX_LETTERS + 1] = "";
    n->n = 2 + below(w, MAX_OPERANDS - 1);
    for (int i = 0; i < n->n; i++) {
        if (is_chain)
            (void)snprintf(n->operand[i], sizeof(n->operand[i]), "%c%c", 'a' + i % n_letters,
                           'a' + (i + 1) % n_letters);
        else
            (void)letters(w, n->operand[i], n_letters, 3);
        for (const char *l = n->operand[i]; *l; l++)
            if (!strchr(seen, *l))
                append(seen, *l);
    }
    for (const char *l = seen; *l; l++)
        append(n->bound[0] && strlen(n->result) < 3 && chance(w, 3) ? n->result : n->bound, *l);
}

/* Also divisors, and sums inside sums: sum[a](sum[b,c](...)). */
static void contraction(writer *w)
{
    static const char *const types[][2] = {{"", ""},           {"", ""},         {":f32", ":f32"}, {":f64", ":f64"},
                                           {":bf16", ":bf16"}, {":i32", ":i64"}, {":i8", ":i32"}};
    const char *const *const type = types[below(w, 7)];
    network n = {0};
    draw_network(w, &n);
    PUT(w, "Y%s", type[1]);
    subscripts(w, n.result);
    put(w, " = sum");
    const bool is_nested = n.bound[1] && chance(w, 3);
    if (is_nested) {
        subscripts(w, (char[]){n.bound[0], 0});
        put(w, "(sum");
    }
    subscripts(w, n.bound + is_nested);
    put(w, "(");
    factors(w, n.n, n.operand, type[0]);
    put(w, is_nested ? "))" : ")");
}

void random_op(md_strbuf *out, uint64_t *state, random_op_kind kind)
{
    static void (*const write[])(writer * w) = {pointwise, broadcast, row,     softmax, scan,
                                                gather,    scatter,   product, chain,   contraction};
    writer w = {.out = out, .state = state};
    write[kind](&w);
}
