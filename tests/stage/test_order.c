/* Orders of sums of products, without a clock: against all orders there are, by what they cost, as stages, and under
 * numeric policies. */
#include "stage/order.h"

#include "base/strbuf.h"
#include "stage/stage.h"
#include "support/check.h"

#include <math.h>

static uint64_t seed;

static int below(uint64_t *random, int n)
{
    return (int)(check_random(random) % (uint64_t)n);
}

/* ---- paths ---- */

static md_st_network random_network(uint64_t *random, int n)
{
    md_st_network network = {.n = n, .n_points = 1};
    const int n_letters = 2 + below(random, 6);
    for (int l = 0; l < n_letters; l++)
        network.size[0][l] = 1 + below(random, 40);
    for (int i = 0; i < n; i++)
        network.operand[i] = (uint32_t)(1 + below(random, (1 << n_letters) - 1));
    network.kept = (uint32_t)below(random, 1 << n_letters);
    return network;
}

/* The least cost of any order: all pairs, then all orders of what is left. */
static double least(const md_st_network *network, md_st_path *path, uint32_t *part, int n)
{
    if (n == 1) {
        const md_st_path_work work = md_st_work_of(network, path, 0);
        return md_st_cost_of(&work);
    }
    double best = INFINITY;
    for (int i = 0; i < n; i++)
        for (int k = i + 1; k < n; k++) {
            uint32_t next[MD_ST_MAX_OPERANDS];
            memcpy(next, part, sizeof next);
            path->first[path->n] = part[i];
            path->second[path->n++] = part[k];
            next[i] |= next[k];
            next[k] = next[n - 1];
            best = fmin(best, least(network, path, next, n - 1));
            path->n--;
        }
    return best;
}

static void is_exact(void **state)
{
    (void)state;
    for (int trial = 0; trial < 300; trial++) {
        uint64_t random = seed + (uint64_t)trial;
        const md_st_network network = random_network(&random, 1 + below(&random, 5));
        md_st_path found, path = {0};
        uint32_t part[MD_ST_MAX_OPERANDS] = {0};
        for (int i = 0; i < network.n; i++)
            part[i] = UINT32_C(1) << i;
        md_st_best_path(&found, &network);
        const md_st_path_work work = md_st_work_of(&network, &found, 0);
        const double want = least(&network, &path, part, network.n);
        assert_int_equal(found.n, network.n - 1);
        if (!(fabs(md_st_cost_of(&work) - want) <= 1e-9 * want))
            fail_msg("trial %d: %d operands, cost %g, least %g", trial, network.n, md_st_cost_of(&work), want);
    }
}

/* A path multiplies every operand once. */
static void check_path(const md_st_network *network, const md_st_path *path)
{
    uint32_t open = (UINT32_C(1) << network->n) - 1, made[2 * MD_ST_MAX_OPERANDS];
    int n = 0;
    for (int i = 0; i < network->n; i++)
        made[n++] = UINT32_C(1) << i;
    for (int i = 0; i < path->n; i++) {
        int found = 0;
        assert_int_equal(path->first[i] & path->second[i], 0);
        for (int k = 0; k < n; k++)
            if (made[k] == path->first[i] || made[k] == path->second[i]) {
                made[k] = 0;
                found++;
            }
        assert_int_equal(found, 2);
        made[n++] = path->first[i] | path->second[i];
    }
    assert_int_equal(made[n - 1], open);
}

/* Chains of 9 to 16 matrices, where all orders are too many: no temporary is larger than a matrix. */
static void is_greedy_above(void **state)
{
    (void)state;
    for (int trial = 0; trial < 100; trial++) {
        uint64_t random = seed + (uint64_t)trial;
        md_st_network network = {.n = 9 + below(&random, 8), .n_points = 1};
        md_st_path found;
        double volume = 1;
        for (int i = 0; i <= network.n; i++)
            volume *= network.size[0][i] = 2 + below(&random, 60);
        for (int i = 0; i < network.n; i++)
            network.operand[i] = UINT32_C(3) << i;
        network.kept = 1 | UINT32_C(1) << network.n;
        md_st_best_path(&found, &network);
        check_path(&network, &found);
        const md_st_path_work work = md_st_work_of(&network, &found, 0);
        assert_true(work.operations < 2.0 * network.n * 62 * 62 * 62 && work.operations < volume);
        assert_true(work.largest <= 61 * 61);
    }
}

/* ---- formulas ---- */

typedef struct made {
    md_fx_formula *formula;
    md_st_program *program;
    md_st_orders orders;
} made;

static made make(const char *text, const char *static_sizes, const md_st_sizes *sizes)
{
    made m = {0};
    assert_ok(md_fx_formula_create(&m.formula, text, &(md_fx_options){.sizes = static_sizes}));
    assert_ok(md_st_split_at(m.formula, sizes, &m.orders));
    assert_ok(md_st_program_create(&m.program, m.formula));
    return m;
}

static void drop(made *m)
{
    md_st_program_destroy(&m->program);
    md_fx_formula_destroy(&m->formula);
}

static int32_t dim_named(const md_fx_formula *f, const char *name)
{
    const int32_t d = md_fx_find_dim(f, name, strlen(name));
    assert_true(d >= 0);
    return d;
}

/* Every size is `n`, but that of `name` is `other`. */
static void fill(int64_t size[MD_FX_MAX_DIMS], const md_fx_formula *f, int64_t n, const char *name, int64_t other)
{
    for (int32_t d = 0; d < MD_FX_MAX_DIMS; d++)
        size[d] = f->dim[d].size >= 0 && d < f->n_dims ? f->dim[d].size : n;
    if (name != NULL)
        size[dim_named(f, name)] = other;
}

static double all_operations(const made *m, const int64_t *size)
{
    double sum = 0;
    for (int32_t s = 0; s < m->program->n_stages; s++) {
        double flops, bytes;
        md_st_work(&flops, &bytes, m->program, s, size);
        sum += flops;
    }
    return sum;
}

/* What a formula costs where every size is n: the operations of all stages, of no more than `power` loops. */
static const struct {
    const char *formula, *sizes;
    int64_t n;
    double most; /* operations */
    int n_nests;
} costs[] = {
    /* sums of products */
    {"Y[i,m] = sum[j,k,l](A[i,j]*B[j,k]*C[k,l]*D[l,m])", NULL, 60, 3 * 2 * 60.0 * 60 * 60, 0},
    {"Y[i] = sum[j,k,l](A[i,j]*B[j,k]*C[k,l]*v[l])", NULL, 300, 3 * 2 * 300.0 * 300, 0},
    {"Y[i,m] = sum[j](A[i,j]*sum[k](B[j,k]*sum[l](C[k,l]*D[l,m])))", NULL, 60, 3 * 2 * 60.0 * 60 * 60, 0},
    {"Y[i] = sum[j](A[i,j]*sum[k](B[j,k]*sum[l](C[k,l]*v[l])))", NULL, 300, 3 * 2 * 300.0 * 300, 0},
    {"Y[i] = sum[l](sum[k](sum[j](A[i,j]*B[j,k])*C[k,l])*v[l])", NULL, 300, 3 * 2 * 300.0 * 300, 0},
    {"Y[i] = sum[j](sum[k](sum[l](A[i,j]*B[j,k]*C[k,l]*v[l])))", NULL, 300, 3 * 2 * 300.0 * 300, 0},
    {"Y[] = sum[i,j,k](u[i]*A[i,j]*B[j,k]*v[k])", NULL, 200, 6 * 2 * 200.0 * 200, 0},
    {"Y[b] = sum[i,j](x[b,i]*A[i,j]*y[b,j])", NULL, 100, 3 * 100.0 * 100 * 100, 0},
    {"Y[i,l] = sum[j,k](A[i,j]*B[k,l])", NULL, 100, 4 * 100.0 * 100, 0},
    {"Y[i] = sum[j,k](A[i,j]*exp(v[k]))", NULL, 100, 3 * 100.0 * 100, 0},
    {"Y[i,j] = sum[a,b,c](G[a,b,c]*U[a,i]*V[b,j]*w[c])", NULL, 30, 9 * 30.0 * 30 * 30, 0},
    {"Y[i,l] = sum[j,k](A:i32[i,j]*B:i32[j,k]*C:i32[k,l])", NULL, 50, 4 * 50.0 * 50 * 50, 0},
    {"Y[i] = max[m](sum[j,k,l](A[i,j]*B[j,k]*C[k,l]*D[l,m]))", NULL, 40, 7 * 40.0 * 40 * 40, 0},
    /* programs whose nest would be quadratic, or worse */
    {"Y[b,g] = var[c,y,x](X[b,g*4+c,y,x])", "c=4", 14, 8 * 4 * 14.0 * 14 * 14 * 14, 0},
    {"Y[b,g] = var[c,y,x](X[b,g*4+c,y,x])", "b=4,g=8,c=4,y=7,x=7", 0, 8 * 4.0 * 32 * 49, 2},
    {"Y[b,g] = var[c,x](X[b,c*8+g,x])", "g=8,c=3", 30, 10 * 8.0 * 3 * 30 * 30, 0},
    {"Y[g] = max[c,x](X[g*4+c,x] - sum[d,y](X[g*4+d,y]))", "c=4,d=4", 30, 10 * 4.0 * 30 * 30, 0},
    {"Y[b] = var[c,y,x](X[b,2*c,y+x])", "c=20,y=20,x=20", 20, 10 * 20.0 * 20 * 20 * 20, 2},
    {"Y[y,x] = sum[r,s](exp(X[y+r,x+s] - max[p,q](X[y+p,x+q])))", "r=3,s=3,p=3,q=3", 50, 60 * 9.0 * 50 * 50, 0},
    {"Y[i,j] = X[i,j] / sum[k,l](X[2*k,l+i])", "k=10,l=10", 30, 10.0 * 30 * 30 + 200 * 30, 1},
    /* windows */
    {"Y[b,c,y,x] = max[r,s](X[b,c,y*2+r,x*2+s])", "r=2,s=2", 10, 4 * 1e4, 0},
    {"Y[c,y,x] = sum[r,s](X[c,y+r,x+s]*W[c,r,s])", "r=3,s=3", 10, 18 * 1e3, 0},
    {"Y[b,x] = mean[r](X[b,x*5+r])", "r=5", 10, 10 * 1e2, 0},
    {"Y:bool[b,y] = any[r](X[b,y*4+r] > 0)", "r=4", 10, 8 * 1e2, 0},
    {"Y[i] = var[j,k](abs(A[i,j] - B[j,k]))", NULL, 30, 10 * 30.0 * 30 * 30, 2},
};

static int count_nests(const md_st_program *p)
{
    int n = 0;
    for (int32_t s = 0; s < p->n_stages; s++)
        n += p->stage[s].kind == MD_ST_NEST;
    return n;
}

static void programs_cost(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof costs / sizeof *costs; i++) {
        int64_t size[MD_FX_MAX_DIMS];
        made m = make(costs[i].formula, costs[i].sizes, &(md_st_sizes){0});
        fill(size, m.formula, costs[i].n, NULL, 0);
        const double ops = all_operations(&m, size);
        if (!(ops <= costs[i].most) || count_nests(m.program) != costs[i].n_nests)
            fail_msg("%s: %g operations, %g allowed; %d nests", costs[i].formula, ops, costs[i].most,
                     count_nests(m.program));
        drop(&m);
    }
}

/* What a report says. */
static void orders_are_said(void **state)
{
    (void)state;
    made m = make("Y[i,m] = sum[j,k,l](A[i,j]*B[j,k]*C[k,l]*D[l,m])", "i=60,j=60,k=60,l=60,m=60", &(md_st_sizes){0});
    int64_t size[MD_FX_MAX_DIMS];
    md_st_order_facts f;
    fill(size, m.formula, 0, NULL, 0);
    assert_int_equal(m.orders.n, 1);
    md_st_order_work(&f, m.orders.order[0], size);
    assert_string_equal(f.text, "((A[i,j] * B[j,k]) * C[k,l]) * D[l,m]");
    assert_true(!f.is_written && f.operations == 6.0 * 60 * 60 * 60 && f.written == 4 * pow(60, 5) &&
                f.largest == 3600);
    drop(&m);
    m = make("Y[i,l] = sum[k](A[i,k]*B[i,k]*w[k]*C[k,l])", NULL, &(md_st_sizes){0});
    assert_int_equal(m.orders.n, 0); /* one product: nothing to choose */
    drop(&m);
    m = make("Y[i,l] = sum[j](A[i,j]*sum[k](B[j,k]*C[k,l]))", NULL, &(md_st_sizes){0});
    assert_int_equal(m.orders.n, 1);
    md_st_order_work(&f, m.orders.order[0], size);
    assert_true(f.is_written); /* it has the least cost already */
    drop(&m);
}

/* ---- which sizes choose ---- */

static const char chain[] = "Y[i,l] = sum[j,k](A[i,j]*B[j,k]*C[k,l])";

static const char *text_of(const md_st_orders *orders)
{
    md_st_order_facts f;
    assert_int_equal(orders->n, 1);
    md_st_order_work(&f, orders->order[0], (const int64_t[MD_FX_MAX_DIMS]){0});
    return f.text;
}

static void expect_order(const char *static_sizes, const char *name, int64_t hint, bool ignores_batch, const char *want)
{
    md_fx_formula *f = NULL;
    int64_t size[1][MD_FX_MAX_DIMS];
    assert_ok(md_fx_formula_create(&f, chain, &(md_fx_options){.sizes = static_sizes}));
    fill(size[0], f, 100, name, hint);
    md_fx_formula_destroy(&f);
    made m = make(chain, static_sizes, &(md_st_sizes){.n = name != NULL, .size = size, .ignores_batch = ignores_batch});
    if (strcmp(text_of(&m.orders), want) != 0)
        fail_msg("%s, hint %s=%lld: %s, expected %s", static_sizes ? static_sizes : "no static size",
                 name ? name : "none", (long long)hint, text_of(&m.orders), want);
    drop(&m);
}

static void sizes_choose(void **state)
{
    (void)state;
    static const char left[] = "(A[i,j] * B[j,k]) * C[k,l]", right[] = "A[i,j] * (B[j,k] * C[k,l])";
    expect_order(NULL, "i", 1, false, left);
    expect_order(NULL, "l", 1, false, right);
    expect_order("l=1", NULL, 0, false, right);
    expect_order("l=1..1", NULL, 0, false, right); /* the range of a dim */
    expect_order(NULL, NULL, 0, false, left); /* equal sizes: as written */
    /* bits must not depend on a batch: neither on hints of it nor on its static size */
    expect_order("l=1", NULL, 0, true, left);
    expect_order("l=5000", NULL, 0, true, left);
    expect_order("k=1", NULL, 0, true, left);
    expect_order("j=1", NULL, 0, true, right); /* sums run over j */
}

/* The order that is the least behind at all hints. */
static void hints_are_weighed(void **state)
{
    (void)state;
    int64_t size[3][MD_FX_MAX_DIMS];
    md_fx_formula *f = NULL;
    assert_ok(md_fx_formula_create(&f, chain, NULL));
    fill(size[0], f, 100, "i", 1);
    fill(size[1], f, 100, "l", 50);
    fill(size[2], f, 100, "l", 50);
    md_fx_formula_destroy(&f);
    made m = make(chain, NULL, &(md_st_sizes){.n = 3, .size = size});
    assert_string_equal(text_of(&m.orders), "(A[i,j] * B[j,k]) * C[k,l]"); /* 50 times better once, 1.3 worse twice */
    drop(&m);
}

int main(void)
{
    seed = check_seed();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(is_exact),        cmocka_unit_test(is_greedy_above), cmocka_unit_test(programs_cost),
        cmocka_unit_test(orders_are_said), cmocka_unit_test(sizes_choose),    cmocka_unit_test(hints_are_weighed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
