/* Random formulas in the language's grammar, for tests that need any formula. */
#include "support/random/random_formula.h"

#include "check.h"
#include "expr/ops.h"

enum { MAX_VISIBLE = 8 };

typedef struct generator {
    md_strbuf *out;
    uint64_t *state;
    random_formula_options o;
    int n_rows, n_columns; /* visible indices of each kind */
    char row[MAX_VISIBLE][16], column[MAX_VISIBLE][16];
    bool free_rows,
        free_columns; /* i and j stand on the left side and no reduction is around: scans may run along them */
    bool in_scan;
    int n_bound;
} generator;

static void value(generator *g, int depth);

static int below(generator *g, int n)
{
    return (int)(check_random(g->state) % (uint64_t)n);
}

static void add(generator *g, const char *text)
{
    md_strbuf_add(g->out, text);
}

static const char *any_row(generator *g)
{
    return g->row[below(g, g->n_rows)];
}

static const char *any_column(generator *g)
{
    return g->column[below(g, g->n_columns)];
}

/* An element at a row and a column. Draws in one call would be in the compiler's order. */
static void add_element(generator *g, const char *before, const char *between, const char *after)
{
    const char *const column = any_column(g), *const row = any_row(g);
    md_strbuf_printf(g->out, "%s%s%s%s%s", before, row, between, column, after);
}

static void literal(generator *g)
{
    static const char *const plain[] = {"0", "1", "2", "3", "0.5", "1.5", "0.1", "1e-5", "-1", "-0.25", "pi", "7"};
    static const char *const special[] = {"inf", "-inf", "nan", "-0.0", "1e30"};
    if (!g->o.without_specials && below(g, 8) == 0)
        add(g, special[below(g, 5)]);
    else
        add(g, plain[below(g, 12)]);
}

/* Reads that would lie outside but for a condition or a choice in the subscript; always legal. */
static void guarded_load(generator *g)
{
    const char *const r = any_row(g), *const c = any_column(g);
    const int shift = 1 + below(g, 2);
    switch (below(g, 5)) {
    case 0:
        md_strbuf_printf(g->out, "where(%s >= %d and B[%s,%s] < 0.5, G[%s,%s - %d], 0.5)", c, shift, r, c, r, c, shift);
        break;
    case 1:
        md_strbuf_printf(g->out, "where(%s %% 2 == 1, G[%s,%s - 1], G[%s,%s // 2])", c, r, c, r, c);
        break;
    case 2:
        md_strbuf_printf(g->out, "G[%s,clamp(%s - %d, 0, size(%s) - 1)]", r, c, shift, c);
        break;
    case 3:
        md_strbuf_printf(g->out, "where(B[%s,%s] > 0 or %s == 0, 1.5, G[%s,abs(%s - 1)])", r, c, c, r, c);
        break;
    default:
        md_strbuf_printf(g->out, "where(%s < %d, H[%s], G[%s,%s - %d])", c, shift, c, r, c, shift);
        break;
    }
}

/* Stored types that are widened when they are loaded, and bits. */
static void narrow_load(generator *g)
{
    static const char *const texts[][2] = {{"N:i32[", "]"},       {"K:i8[", "]"},         {"(L:u16[", "] & 5)"},
                                           {"(K:i8[", "] >> 1)"}, {"(~N:i32[", "] ^ 3)"}, {"(L:u16[", "] << 1 | 1)"}};
    const int k = below(g, 6);
    add_element(g, texts[k][0], ",", texts[k][1]);
}

static void transposed_load(generator *g)
{
    const char *const row = any_row(g), *const column = any_column(g);
    md_strbuf_printf(g->out, "T[%s,%s]", column, row);
}

static void strided_load(generator *g)
{
    const int shift = below(g, 3);
    md_strbuf_printf(g->out, "S[2 * %s + %d]", any_column(g), shift);
}

static void load(generator *g)
{
    const bool has_rows = g->n_rows > 0, has_columns = g->n_columns > 0;
    const int kind = below(g, 14);
    if (has_rows && has_columns && kind >= 12 && !g->o.without_shifts)
        guarded_load(g);
    else if (has_rows && has_columns && kind == 0)
        transposed_load(g);
    else if (has_rows && has_columns && kind == 1 && !g->o.without_ints)
        narrow_load(g);
    else if (has_rows && has_columns && kind == 9 && !g->o.without_ints)
        add_element(g, "Q:f8e4m3[", ",", "]");
    else if (has_rows && has_columns && kind == 2 && !g->o.without_doubles)
        add_element(g, "D:f64[", ",", "]");
    else if (has_rows && has_columns && kind == 3 && !g->o.without_gathers)
        add_element(g, "E[ids[", "],", "]");
    else if (has_columns && kind == 4 && !g->o.without_shifts)
        strided_load(g);
    else if (has_rows && has_columns && kind < 9)
        add_element(g, kind % 2 ? "A[" : "B[", ",", "]");
    else if (has_rows && (kind % 2 || !has_columns))
        md_strbuf_printf(g->out, "U[%s]", any_row(g));
    else if (has_columns)
        md_strbuf_printf(g->out, "V[%s]", any_column(g));
    else
        literal(g);
}

static void condition(generator *g, int depth)
{
    static const char *const signs[] = {" < ", " <= ", " > ", " >= ", " == ", " != "};
    const int kind = depth <= 0 ? 0 : below(g, 8);
    if (kind == 5) {
        add(g, "(not ");
        condition(g, depth - 1);
        add(g, ")");
    } else if (kind >= 6) {
        add(g, "(");
        condition(g, depth - 1);
        add(g, kind == 6 ? " and " : " or ");
        condition(g, depth - 1);
        add(g, ")");
    } else if (kind == 4 && g->n_rows && g->n_columns) {
        add_element(g, "M:bool[", ",", "]");
    } else {
        add(g, "(");
        value(g, depth - 1);
        add(g, signs[below(g, 6)]);
        value(g, depth - 1);
        add(g, ")");
    }
}

static void call(generator *g, const char *name, int n, int depth)
{
    md_strbuf_printf(g->out, "%s(", name);
    for (int i = 0; i < n; ++i) {
        add(g, i ? ", " : "");
        value(g, depth - 1);
    }
    add(g, ")");
}

static bool takes_any(const md_fx_op_row *row)
{
    return row->lo == row->hi || row->lo < -1e300;
}

/* A function of so many operands; `is_tame`: one that gives numbers for all numbers. */
static const char *any_function(generator *g, int32_t n_operands, bool is_tame)
{
    const char *name[MD_FX_N_OPS];
    int n = 0;
    for (md_fx_op op = MD_FX_NO_OP; op < MD_FX_N_OPS; op++) {
        const md_fx_op_row *row = md_fx_op_info(op);
        if (md_fx_op_is_function(op) && row->arity == n_operands && row->rule != MD_FX_RULE_TEST &&
            row->rule != MD_FX_RULE_INTEGER && row->rule != MD_FX_RULE_SELECT && (!is_tame || takes_any(row)))
            name[n++] = row->name;
    }
    return name[below(g, n)];
}

static void function(generator *g, int depth)
{
    const int kind = below(g, 8), n_operands = kind == 0 ? 3 : kind < 3 ? 2 : 1;
    call(g, any_function(g, n_operands, g->o.without_specials || kind % 2), n_operands, depth);
}

static void operation(generator *g, int depth)
{
    static const char *const signs[] = {" + ", " - ", " * ", " / ", " // ", " % "};
    if (below(g, 8) == 0) {
        add(g, "-");
        value(g, depth - 1);
        return;
    }
    const bool has_parentheses = below(g, 2);
    add(g, has_parentheses ? "(" : "");
    value(g, depth - 1);
    add(g, signs[below(g, g->o.without_specials ? 3 : 6)]);
    value(g, depth - 1);
    add(g, has_parentheses ? ")" : "");
}

static void reduction(generator *g, int depth)
{
    static const char *const names[] = {"sum", "max", "min", "mean", "var", "prod", "argmax", "argmin", "any", "all"};
    const int op = below(g, 10);
    const bool is_row = below(g, 2);
    int *const n = is_row ? &g->n_rows : &g->n_columns;
    if (*n == MAX_VISIBLE || g->n_bound > 20) {
        literal(g);
        return;
    }
    char *const name = is_row ? g->row[*n] : g->column[*n];
    snprintf(name, sizeof g->row[0], "%c%d", is_row ? 'r' : 'c', g->n_bound++);
    const bool was_rows = g->free_rows, was_columns = g->free_columns;
    g->free_rows = g->free_columns = false;
    md_strbuf_printf(g->out, "%s[%s](", names[op], name);
    ++*n;
    /* a plain load first, so that the index has a size */
    md_strbuf_printf(g->out, "%s[%s] %s ", is_row ? "U" : "V", name, op >= 8 ? "< 0.5 or" : below(g, 2) ? "+" : "*");
    if (op >= 8)
        condition(g, depth - 1);
    else
        value(g, depth - 1);
    --*n;
    add(g, op == 4 && below(g, 2) ? ", unbiased)" : ")");
    g->free_rows = was_rows;
    g->free_columns = was_columns;
}

static void scan(generator *g, int depth)
{
    static const char *const names[] = {"cumsum", "cumprod", "cummax", "cummin"};
    if (g->in_scan || !(g->free_rows || g->free_columns)) {
        load(g);
        return;
    }
    md_strbuf_printf(g->out, "%s[%s](", names[below(g, 4)], g->free_columns ? "j" : "i");
    g->in_scan = true;
    value(g, depth - 1);
    g->in_scan = false;
    add(g, below(g, 3) == 0 ? ", exclusive" : "");
    add(g, below(g, 3) == 0 ? ", reverse)" : ")");
}

static void leaf(generator *g)
{
    const int kind = below(g, 10);
    if (kind == 0)
        literal(g);
    else if (kind == 1)
        add(g, below(g, 2) || g->o.without_ints ? "s" : "q");
    else if (kind == 2 && !g->o.without_ints && g->n_columns)
        add(g, below(g, 2) ? any_column(g) : "size(j)");
    else
        load(g);
}

static void value(generator *g, int depth)
{
    static const char *const casts[] = {"bf16", "f16", "f32", "i32", "i64", "f64", "u8"};
    const int kind = depth <= 0 ? 0 : below(g, 14);
    if (kind < 2) {
        leaf(g);
    } else if (kind < 6) {
        operation(g, depth);
    } else if (kind < 9) {
        function(g, depth);
    } else if (kind == 9 && !g->o.without_casts) {
        call(g, casts[below(g, g->o.without_ints ? 3 : g->o.without_doubles ? 5 : 7)], 1, depth);
    } else if (kind == 10) {
        add(g, "where(");
        condition(g, depth - 1);
        add(g, ", ");
        value(g, depth - 1);
        add(g, ", ");
        value(g, depth - 1);
        add(g, ")");
    } else if (kind < 13 && !g->o.without_reductions) {
        reduction(g, depth);
    } else if (kind == 13 && !g->o.without_scans) {
        scan(g, depth);
    } else {
        leaf(g);
    }
}

static void statement(generator *g, int number, bool is_last)
{
    static const char *const lefts[] = {"[i,j]", "[i]", "[j]", "[]"};
    const int left = below(g, 5) % 4;
    g->n_rows = g->free_rows = left < 2;
    g->n_columns = g->free_columns = left % 2 == 0;
    snprintf(g->row[0], sizeof g->row[0], "i");
    snprintf(g->column[0], sizeof g->column[0], "j");
    md_strbuf_printf(g->out, "%s%d%s = ", is_last || below(g, 2) ? "Y" : "let t", number, lefts[left]);
    value(g, g->o.max_depth ? g->o.max_depth : 4);
}

void random_formula(md_strbuf *out, uint64_t *state, const random_formula_options *options)
{
    generator g = {.out = out, .state = state};
    if (options)
        g.o = *options;
    add(&g, g.o.without_ints ? "scalar s; " : "scalar s, q:i64; ");
    /* Reads every axis plainly once, so that i and j always have a size. */
    add(&g, "Z[i,j] = A[i,j]; ");
    const int n = 1 + below(&g, 3);
    for (int k = 0; k < n; ++k) {
        add(&g, k ? "; " : "");
        statement(&g, k, k == n - 1);
    }
}
