/* Random chains of lets and outputs over square tensors. */
#include "support/random/random_program.h"

#include "support/check.h"

enum { MAX_TENSORS = 12 };

typedef struct generator {
    md_strbuf *out;
    uint64_t *state;
    int n_tensors, rank[MAX_TENSORS];
    char name[MAX_TENSORS][8];
    int n_visible;
    char visible[8]; /* names of indices are single letters */
    char scanned; /* the free index that scans may run along; 0: none */
    int n_bound;
} generator;

static void term(generator *g, int depth);

static int below(generator *g, int n)
{
    return (int)(check_random(g->state) % (uint64_t)n);
}

static int larger(int a, int b)
{
    return a > b ? a : b;
}

static void add_tensor(generator *g, const char *name, int rank)
{
    snprintf(g->name[g->n_tensors], sizeof(g->name[0]), "%s", name);
    g->rank[g->n_tensors++] = rank;
}

static char any_index(generator *g)
{
    return g->visible[below(g, g->n_visible)];
}

/* A tensor at visible indices: later ones are likelier, and the last visible index in the last place. */
static void load(generator *g)
{
    int t = larger(below(g, g->n_tensors), below(g, g->n_tensors));
    if (g->n_visible == 0)
        for (t = g->n_tensors - 1; g->rank[t] > 0; t--)
            ;
    md_strbuf_printf(g->out, "%s[", g->name[t]);
    for (int i = 0; i < g->rank[t]; i++) {
        bool is_straight = below(g, 3) > 0 && g->n_visible >= g->rank[t];
        char x = is_straight ? g->visible[g->n_visible - g->rank[t] + i] : any_index(g);
        md_strbuf_printf(g->out, "%s%c", i > 0 ? "," : "", x);
    }
    md_strbuf_add(g->out, "]");
}

static char bind(generator *g)
{
    static const char names[] = "klmnopqrtuvwxyz";
    char x = names[g->n_bound++ % (int)(sizeof(names) - 1)];
    g->visible[g->n_visible++] = x;
    return x;
}

static void reduction(generator *g, int depth)
{
    static const char *const names[] = {"sum", "sum", "sum", "max", "min", "mean", "var", "argmax"};
    char scanned = g->scanned;
    if (g->n_visible > 4 || g->n_bound > 12) {
        load(g);
        return;
    }
    g->scanned = 0;
    md_strbuf_printf(g->out, "%s[%c](", names[below(g, 8)], bind(g));
    switch (below(g, 4)) {
    case 0: /* a product, or half of one */
        load(g);
        md_strbuf_add(g->out, " * ");
        load(g);
        break;
    case 1:
        term(g, depth - 1);
        break;
    default:
        md_strbuf_printf(g->out, "X[%c,%c] * ", any_index(g), g->visible[g->n_visible - 1]);
        load(g);
    }
    md_strbuf_add(g->out, ")");
    g->n_visible--;
    g->scanned = scanned;
}

/* exp(x - max(x)) of a row: what is rescaled. */
static void shifted(generator *g)
{
    if (g->n_visible == 0 || g->n_visible > 4 || g->n_bound > 12) {
        load(g);
        return;
    }
    char row = any_index(g), along = any_index(g);
    md_strbuf_printf(g->out, "exp(X[%c,%c] - ", row, along);
    char x = bind(g);
    md_strbuf_printf(g->out, "max[%c](X[%c,%c]))", x, row, x);
    g->n_visible--;
}

static void term(generator *g, int depth)
{
    static const char *const functions[] = {"tanh", "abs", "exp", "bf16", "relu", "sigmoid"};
    int kind = depth <= 0 ? 0 : below(g, 14);
    if (kind < 3) {
        load(g);
    } else if (kind < 6) {
        reduction(g, depth);
    } else if (kind < 7) {
        shifted(g);
    } else if (kind == 7 && g->scanned != 0) {
        char along = g->scanned;
        g->scanned = 0;
        md_strbuf_printf(g->out, "cumsum[%c](", along);
        term(g, depth - 1);
        md_strbuf_add(g->out, ")");
        g->scanned = along;
    } else if (kind == 8 && g->n_visible > 1) {
        const char right = any_index(g); /* two draws in one call would be in the compiler's order */
        md_strbuf_printf(g->out, "where(%c <= %c, ", any_index(g), right);
        term(g, depth - 1);
        md_strbuf_add(g->out, ", ");
        load(g);
        md_strbuf_add(g->out, ")");
    } else if (kind < 11) {
        md_strbuf_printf(g->out, "%s(0.25 * ", functions[below(g, 6)]);
        term(g, depth - 1);
        md_strbuf_add(g->out, ")");
    } else {
        static const char *const signs[] = {" + ", " - ", " * "};
        md_strbuf_add(g->out, "(");
        term(g, depth - 1);
        md_strbuf_add(g->out, signs[below(g, 3)]);
        term(g, depth - 1);
        md_strbuf_add(g->out, ")");
    }
}

static void statement(generator *g, int number, bool is_last)
{
    static const char *const lefts[] = {"ij", "ij", "i", "j", "ji", ""};
    const char *left = lefts[below(g, 6)];
    char name[8];
    bool is_output = is_last || below(g, 3) == 0;
    snprintf(name, sizeof(name), "%c%d", is_output ? 'Y' : 't', number % 1000);
    g->n_visible = (int)strlen(left);
    memcpy(g->visible, left, strlen(left));
    g->scanned = left[0] != 0 ? left[strlen(left) - 1] : 0;
    g->n_bound = 0;
    md_strbuf_printf(g->out, "; %s%s%s[", is_output ? "" : "let ", name, below(g, 6) == 0 ? ":bf16" : "");
    for (int i = 0; i < g->n_visible; i++)
        md_strbuf_printf(g->out, "%s%c", i > 0 ? "," : "", left[i]);
    md_strbuf_add(g->out, "] = ");
    term(g, 3);
    add_tensor(g, name, g->n_visible);
}

void random_program(md_strbuf *out, uint64_t *state)
{
    generator g = {.out = out, .state = state};
    /* X at [a,b] and [b,a]: one dim for all */
    md_strbuf_add(out, "Z[a,b] = X[a,b] + X[b,a] + U[a]; S[] = sum[a](U[a])");
    add_tensor(&g, "S", 0);
    add_tensor(&g, "U", 1);
    add_tensor(&g, "X", 2);
    add_tensor(&g, "W", 2);
    int n = 2 + below(&g, 6);
    for (int i = 0; i < n; i++)
        statement(&g, i, i == n - 1);
}
