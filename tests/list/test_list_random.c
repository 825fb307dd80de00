/* Random formulas over lists against an interpreter in f64, which knows neither steps nor tiles: lists that are
 * updated, lets, reductions over all items that need each other's results. */
#include "list/floats.h"

enum { FORMULAS = 25, STATEMENTS = 8, LISTS = 3, TOTAL = 30000, DEPTH = 3 };

static const char *const list_name[LISTS] = {"A", "B", "C"};

typedef struct program {
    uint64_t *seed;
    char text[8000];
    int64_t n_items, size[MOST], n; /* n: elements of all items */
    double *value[LISTS + STATEMENTS]; /* lists, then lets of items by statement; NULL: nothing yet */
    double number[STATEMENTS];
    bool has_number[STATEMENTS];
} program;

static void add(program *p, const char *text)
{
    assert_true(strlen(p->text) + strlen(text) < sizeof p->text);
    strcat(p->text, text);
}

static int below(program *p, int n)
{
    return (int)(check_random(p->seed) % (uint64_t)n);
}

static double *fresh(void)
{
    return malloc(TOTAL * sizeof(double));
}

/* ---- Expressions: their text, and their value at every element */

static bool leaf(program *p, double *out)
{
    char text[32];
    const int k = below(p, LISTS + 2 * STATEMENTS + 2);
    if (k < LISTS + STATEMENTS && p->value[k]) {
        snprintf(text, sizeof text, k < LISTS ? "%s@t[i]" : "w%s@t[i]",
                 k < LISTS ? list_name[k] : (const char *[]){"0", "1", "2", "3", "4", "5", "6", "7"}[k - LISTS]);
        memcpy(out, p->value[k], (size_t)p->n * sizeof(double));
    } else if (k >= LISTS + STATEMENTS && k < LISTS + 2 * STATEMENTS && p->has_number[k - LISTS - STATEMENTS]) {
        snprintf(text, sizeof text, "n%d", k - LISTS - STATEMENTS);
        for (int64_t i = 0; i < p->n; i++)
            out[i] = p->number[k - LISTS - STATEMENTS];
    } else if (k >= LISTS + 2 * STATEMENTS) {
        const double c = below(p, 16) / 8.0 - 1.0;
        snprintf(text, sizeof text, "(%g)", c);
        for (int64_t i = 0; i < p->n; i++)
            out[i] = c;
    } else {
        return false;
    }
    add(p, text);
    return true;
}

static double apply(int op, double a, double b)
{
    return op == 0   ? a + b
           : op == 1 ? a - b
           : op == 2 ? a * b / (1 + fabs(a) + fabs(b))
           : op == 3 ? fmin(a, b)
                     : fmax(a, b);
}

/* Small values stay small: all functions are smooth, and f32 is near f64. */
static void expression(program *p, double *out, int depth)
{
    static const char *const middle[] = {" + ", " - ", NULL, ", ", ", "};
    if (depth == 0 || below(p, 4) == 0) {
        while (!leaf(p, out))
            ;
        return;
    }
    const int op = below(p, 5);
    double *b = fresh();
    const size_t from = strlen(p->text);
    char left[2000], right[2000];
    expression(p, out, depth - 1);
    snprintf(left, sizeof left, "%s", p->text + from);
    p->text[from] = 0;
    expression(p, b, depth - 1);
    snprintf(right, sizeof right, "%s", p->text + from);
    p->text[from] = 0;
    add(p, op < 3 ? "(" : op == 3 ? "min(" : "max(");
    add(p, left);
    add(p, op == 2 ? " * " : middle[op]);
    add(p, right);
    if (op == 2) {
        add(p, " / (1 + abs(");
        add(p, left);
        add(p, ") + abs(");
        add(p, right);
        add(p, "))");
    }
    add(p, ")");
    for (int64_t i = 0; i < p->n; i++)
        out[i] = apply(op, out[i], b[i]);
    free(b);
}

/* ---- Statements */

static void reduction(program *p, int at)
{
    static const char *const name[] = {"sum", "max", "min"};
    const int op = below(p, 3);
    char text[64];
    double *v = fresh(), all = op == 0 ? 0.0 : op == 1 ? -INFINITY : INFINITY;
    snprintf(text, sizeof text, "let n%d = %s[t,i](0 * A@t[i] + ", at, name[op]);
    add(p, text);
    expression(p, v, DEPTH);
    for (int64_t i = 0; i < p->n; i++)
        all = op == 0 ? all + v[i] : op == 1 ? fmax(all, v[i]) : fmin(all, v[i]);
    snprintf(text, sizeof text, ")%s; ", op == 0 ? " / 30000" : "");
    add(p, text);
    p->number[at] = op == 0 ? all / 30000 : all;
    p->has_number[at] = true;
    free(v);
}

static void assignment(program *p, int at, bool is_let)
{
    const int list = is_let ? LISTS + at : below(p, LISTS);
    char text[64];
    double *v = fresh();
    snprintf(text, sizeof text, is_let ? "let w%d@t[i] = " : "%c@t[i] = ", is_let ? at : 'A' + list);
    add(p, text);
    expression(p, v, DEPTH);
    add(p, "; ");
    free(p->value[list]);
    p->value[list] = v;
}

static void generate(program *p, floats *const lists[LISTS])
{
    for (int k = 0; k < 2; k++) {
        int64_t at = 0;
        p->value[k] = fresh();
        for (int64_t i = 0; i < p->n_items; i++)
            for (int64_t e = 0; e < p->size[i]; e++)
                p->value[k][at++] = lists[k]->x[i][e];
    }
    for (int at = 0; at + 1 < STATEMENTS; at++) {
        const int kind = below(p, 5);
        if (kind < 2)
            reduction(p, at);
        else
            assignment(p, at, kind == 2);
    }
    reduction(p, STATEMENTS - 1);
    add(p, "N = n7; C@t[i] = A@t[i] + N");
    double *c = fresh();
    for (int64_t i = 0; i < p->n; i++)
        c[i] = p->value[0][i] + p->number[STATEMENTS - 1];
    free(p->value[2]);
    p->value[2] = c;
}

/* ---- Running one */

static void compare(const program *p, floats *const lists[LISTS], float number)
{
    if (!(fabs(number - p->number[STATEMENTS - 1]) <= 2e-4))
        fail_msg("%s: N is %.9g, expected %.9g", p->text, number, p->number[STATEMENTS - 1]);
    for (int k = 0; k < LISTS; k++) {
        int64_t at = 0;
        for (int64_t i = 0; i < p->n_items; i++)
            for (int64_t e = 0; e < p->size[i]; e++, at++)
                if (!(fabs(lists[k]->x[i][e] - p->value[k][at]) <= 2e-4))
                    fail_msg("%s: %s, item %lld, element %lld: %.9g, expected %.9g", p->text, list_name[k],
                             (long long)i, (long long)e, lists[k]->x[i][e], p->value[k][at]);
    }
}

/* False for what the language refuses: a value that nobody reads, and lets of what an earlier pass overwrote. */
static bool run(program *p, floats *const lists[LISTS])
{
    md_list *list = NULL;
    md_arg args[LISTS + 1];
    md_list_info info;
    float number = -1.0F;
    const md_tensor out = {.data = &number, .dtype = MD_F32};
    const md_op_options options = {.tune = MD_TUNE_OFF, .max_variants = 1};
    if (md_list_create(&list, context, p->text, &options) != MD_OK) {
        if (!strstr(md_last_error(), "assigned twice") && !strstr(md_last_error(), "overwritten since"))
            fail_msg("%s: %s", p->text, md_last_error());
        return false;
    }
    const int32_t n = md_list_n_args(list);
    for (int32_t i = 0; i < n; i++) {
        assert_ok(md_list_arg(&info, list, i));
        args[i] = info.is_list ? md_ts(lists[info.name[0] - 'A']->t, p->n_items) : md_t(&out);
    }
    assert_ok(md_list_call(list, NULL, args, n));
    md_list_destroy(&list);
    compare(p, lists, number);
    return true;
}

static bool one(uint64_t *seed)
{
    program *p = calloc(1, sizeof *p);
    floats *lists[LISTS];
    p->seed = seed;
    do {
        p->n = 0;
        p->n_items = draw_sizes(p->size, seed);
        for (int64_t i = 0; i < p->n_items; i++)
            p->n += p->size[i];
    } while (p->n == 0 || p->n > TOTAL);
    for (int k = 0; k < LISTS; k++)
        lists[k] = make_floats(p->n_items, p->size, seed);
    generate(p, lists);
    const bool has_run = run(p, lists);
    for (int k = 0; k < LISTS + STATEMENTS; k++)
        free(p->value[k]);
    for (int k = 0; k < LISTS; k++)
        free_floats(lists[k]);
    free(p);
    return has_run;
}

/* Without a compiler: the reference evaluator computes the steps. */
static int set_up_reference(void **state)
{
    (void)state;
    return md_context_create(
               &context, &(md_context_options){.device = "host", .threads = 1, .hints = "64", .cc = "false"}) != MD_OK;
}

static void test_kernels(void **state)
{
    (void)state;
    uint64_t seed = check_seed();
    int tries = 0;
    while (!one(&seed))
        assert_true(++tries < 20);
}

static void test_reference(void **state)
{
    (void)state;
    uint64_t seed = check_seed();
    int n = 0;
    for (int i = 0; i < FORMULAS; i++)
        n += one(&seed);
    print_message("%d of %d formulas are legal\n", n, FORMULAS);
    assert_true(n >= FORMULAS / 5);
}

int main(void)
{
    const struct CMUnitTest kernels[] = {cmocka_unit_test(test_kernels)};
    const struct CMUnitTest reference[] = {cmocka_unit_test(test_reference)};
    return cmocka_run_group_tests(kernels, set_up, tear_down) +
           cmocka_run_group_tests(reference, set_up_reference, tear_down);
}
