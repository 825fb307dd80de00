/* Formulas over lists against sums in f64: global norms, clipping, two passes, numbers for the caller, items of all
 * sizes and layouts. */
#include "list/floats.h"

/* ---- Clipping by the norm of all gradients */

static void clip_once(md_list *list, uint64_t *seed, double limit)
{
    int64_t size[MOST];
    const int64_t n = draw_sizes(size, seed);
    floats *p = make_floats(n, size, seed), *g = make_floats(n, size, seed), *before = copy_floats(p);
    const md_arg args[] = {md_s(limit), md_s(0.125), md_ts(p->t, n), md_ts(g->t, n)};
    const md_arg other[] = {md_s(limit), md_s(0.125), md_ts(g->t, n), md_ts(p->t, n)};
    md_list_info info;
    assert_ok(md_list_arg(&info, list, 2));
    assert_ok(md_list_call(list, NULL, info.name[0] == 'P' ? args : other, 4));
    const double norm = sqrt(sum_of_squares(g)), scale = fmin(1.0, limit / (norm + 1e-6));
    for (int64_t i = 0; i < n; i++)
        for (int64_t k = 0; k < size[i]; k++)
            if (fabs(p->x[i][k] - (before->x[i][k] - 0.125 * scale * g->x[i][k])) > 1e-6)
                fail_msg("item %lld, element %lld: %.9g", (long long)i, (long long)k, p->x[i][k]);
    free_floats(p);
    free_floats(g);
    free_floats(before);
}

static void test_clip(void **state)
{
    (void)state;
    uint64_t seed = check_seed();
    md_list *list = make(CLIP);
    md_list_info info;
    assert_int_equal(md_list_n_args(list), 4);
    for (int32_t i = 0; i < 4; i++) {
        assert_ok(md_list_arg(&info, list, i));
        assert_int_equal(info.is_scalar, i < 2);
        assert_int_equal(info.is_list, i >= 2);
        assert_int_equal(info.is_output, i >= 2 && info.name[0] == 'P');
        assert_int_equal(info.is_input, 1);
    }
    for (int i = 0; i < 12; i++)
        clip_once(list, &seed, i % 3 ? 1.5 : 1e9);
    md_list_destroy(&list);
}

/* ---- Numbers for the caller */

static void test_numbers(void **state)
{
    (void)state;
    uint64_t seed = check_seed();
    int64_t size[] = {3, 0, 4096, 9001, 1};
    floats *g = make_floats(5, size, &seed);
    float n = -1.0F, low = -1.0F, high = -1.0F, product = -1.0F;
    const md_tensor out[] = {{.data = &n, .dtype = MD_F32},
                             {.data = &low, .dtype = MD_F32},
                             {.data = &high, .dtype = MD_F32},
                             {.data = &product, .dtype = MD_F32}};
    md_list *list = make("N = sqrt(sum[t,i](G@t[i] * G@t[i])); L = min[t,i](G@t[i]); H[] = max[t,i](G@t[i]);"
                         "Q = prod[t,i](where(abs(G@t[i]) > 1.999, 0.5, 1.0))");
    const md_arg args[] = {md_t(&out[0]), md_ts(g->t, 5), md_t(&out[1]), md_t(&out[2]), md_t(&out[3])};
    const md_arg none[] = {md_t(&out[0]), md_ts(NULL, 0), md_t(&out[1]), md_t(&out[2]), md_t(&out[3])};
    md_list *sums = make("N = sum[t,i](G@t[i]); Q = prod[t,i](G@t[i])");
    const md_arg no_items[] = {md_t(&out[0]), md_ts(NULL, 0), md_t(&out[3])};
    double least = INFINITY, most = -INFINITY, all = 1.0;
    for (int64_t i = 0; i < 5; i++)
        for (int64_t k = 0; k < size[i]; k++) {
            least = fmin(least, g->x[i][k]);
            most = fmax(most, g->x[i][k]);
            all *= fabsf(g->x[i][k]) > 1.999F ? 0.5 : 1.0;
        }
    assert_ok(md_list_call(list, NULL, args, 5));
    assert_near(n, sqrt(sum_of_squares(g)), 1e-6);
    assert_near(low, least, 0.0);
    assert_near(high, most, 0.0);
    assert_near(product, all, 0.0);
    g->x[3][8999] = NAN; /* beyond the full tiles */
    assert_ok(md_list_call(list, NULL, args, 5));
    assert_true(isnan(n) && isnan(low) && isnan(high));
    g->x[3][8999] = -INFINITY;
    assert_ok(md_list_call(list, NULL, args, 5));
    assert_true(isinf(n) && low == -INFINITY && high == (float)most);
    assert_fails(md_list_call(list, NULL, none, 5), MD_INVALID_ARGUMENT, "the min of no elements");
    assert_true(isinf(n)); /* nothing was written */
    assert_ok(md_list_call(sums, NULL, no_items, 3));
    assert_true(n == 0.0F && product == 1.0F);
    md_list_destroy(&list);
    md_list_destroy(&sums);
    free_floats(g);
}

/* ---- One result needs another: two passes before the last one, and one after it */

static void test_softmax_of_all(void **state)
{
    (void)state;
    uint64_t seed = check_seed();
    int64_t size[MOST];
    md_list *list = make("let m = max[t,i](X@t[i]); let s = sum[t,i](exp(X@t[i] - m));\n"
                         "Y@t[i] = exp(X@t[i] - m) / s; C = sum[t,i](Y@t[i])");
    const int64_t n = draw_sizes(size, &seed);
    floats *x = make_floats(n, size, &seed), *y = make_floats(n, size, &seed);
    float c = -1.0F;
    const md_tensor total = {.data = &c, .dtype = MD_F32};
    const md_arg args[] = {md_ts(x->t, n), md_ts(y->t, n), md_t(&total)};
    double sum = 0.0, most = -INFINITY;
    assert_ok(md_list_call(list, NULL, args, 3));
    for (int64_t i = 0; i < n; i++)
        for (int64_t k = 0; k < size[i]; k++)
            most = fmax(most, x->x[i][k]);
    for (int64_t i = 0; i < n; i++)
        for (int64_t k = 0; k < size[i]; k++)
            sum += exp(x->x[i][k] - most);
    for (int64_t i = 0; i < n; i++)
        for (int64_t k = 0; k < size[i]; k++)
            assert_near(y->x[i][k], exp(x->x[i][k] - most) / sum, 1e-5);
    assert_near(c, 1.0, 1e-5);
    md_list_destroy(&list);
    free_floats(x);
    free_floats(y);
}

/* ---- Other layouts, one tensor for all items, results of each item */

static void test_rows(void **state)
{
    (void)state;
    uint64_t seed = check_seed();
    int64_t size[] = {12, 40, 30};
    floats *x = make_floats(3, size, &seed), *w = make_floats(1, (const int64_t[]){5}, &seed);
    md_tensor in[3] = {x->t[0], x->t[1], x->t[2]}, out[3];
    float y[3] = {0}, all = 0.0F;
    /* transposed, with gaps between rows, and with nothing in between */
    in[0] = (md_tensor){x->x[0], MD_F32, 2, {2, 5}, {1, 2}};
    in[1] = (md_tensor){x->x[1], MD_F32, 2, {5, 5}, {8, 1}};
    in[2] = (md_tensor){x->x[2], MD_F32, 2, {6, 5}, {5, 1}};
    md_list *list = make("R@t[] = sum[i,j](X@t[i,j] * W[j]); let u@t[i,j] = X@t[i,j] * X@t[i,j];"
                         "A = sum[t,i,j](u@t[i,j] * 2)");
    for (int i = 0; i < 3; i++)
        out[i] = (md_tensor){.data = &y[i], .dtype = MD_F32};
    const md_tensor total = {.data = &all, .dtype = MD_F32};
    const md_arg args[] = {md_ts(out, 3), md_ts(in, 3), md_t(&w->t[0]), md_t(&total)};
    double sum = 0.0;
    assert_ok(md_list_call(list, NULL, args, 4));
    for (int t = 0; t < 3; t++) {
        double own = 0.0;
        for (int64_t i = 0; i < in[t].size[0]; i++)
            for (int64_t j = 0; j < 5; j++) {
                const double v = ((float *)in[t].data)[i * in[t].stride[0] + j * in[t].stride[1]];
                own += v * w->x[0][j];
                sum += 2.0 * v * v;
            }
        if (fabs(y[t] - own) > 1e-4)
            fail_msg("item %d: %.9g, expected %.9g", t, y[t], own);
    }
    assert_near(all, sum, 1e-6);
    md_list_destroy(&list);
    free_floats(x);
    free_floats(w);
}

/* A list is written twice, and a let keeps the value before. */
static void test_order(void **state)
{
    (void)state;
    float x[2] = {3.0F, 5.0F}, y[2] = {0}, n = 0.0F;
    const md_tensor tx = vector(x, 2), ty = vector(y, 2), tn = {.data = &n, .dtype = MD_F32};
    md_list *list = make("let old@t[i] = X@t[i]; X@t[i] = X@t[i] + 1; X@t[i] = X@t[i] * 10; N = sum[t,i](X@t[i]);"
                         "Y@t[i] = old@t[i] - X@t[i]; X@t[i] = X@t[i] / N");
    const md_arg args[] = {md_ts(&tx, 1), md_t(&tn), md_ts(&ty, 1)};
    assert_ok(md_list_call(list, NULL, args, 3));
    assert_true(n == 100.0F);
    assert_near(x[0], 0.4, 1e-6);
    assert_near(x[1], 0.6, 1e-6);
    assert_true(y[0] == 3.0F - 40.0F && y[1] == 5.0F - 60.0F);
    md_list_destroy(&list);
}

/* The bits of a norm depend on the sizes of the items, not on threads. */
static void test_bits(void **state)
{
    (void)state;
    uint64_t seed = check_seed();
    int64_t size[] = {20000, 7, 8192, 4097, 300};
    floats *g = make_floats(5, size, &seed);
    uint32_t bits[3] = {0};
    for (int k = 0; k < 3; k++) {
        md_context *own = NULL;
        md_list *list = NULL;
        const md_tensor out = {.data = &bits[k], .dtype = MD_F32};
        const md_arg args[] = {md_t(&out), md_ts(g->t, 5)};
        assert_ok(md_context_create(&own, &(md_context_options){.device = "host", .threads = k + 1}));
        assert_ok(md_list_create(&list, own, "N = sum[t,i](G@t[i] * G@t[i])", NULL));
        assert_ok(md_list_call(list, NULL, args, 2));
        md_list_destroy(&list);
        md_context_destroy(&own);
    }
    assert_int_equal(bits[0], bits[1]);
    assert_int_equal(bits[0], bits[2]);
    free_floats(g);
}

/* ---- The catalogue */

static void test_adamw_clipped(void **state)
{
    (void)state;
    uint64_t seed = check_seed();
    int64_t size[MOST];
    const int64_t n = draw_sizes(size, &seed);
    floats *all[4]; /* G, M, V, P */
    floats *was[4];
    for (int k = 0; k < 4; k++) {
        all[k] = make_floats(n, size, &seed);
        for (int64_t i = 0; k == 2 && i < n; i++)
            for (int64_t e = 0; e < size[i]; e++)
                all[k]->x[i][e] = fabsf(all[k]->x[i][e]);
        was[k] = copy_floats(all[k]);
    }
    md_list *list = make("adamw_clipped");
    md_arg args[12] = {md_s(1.0), md_s(0.01), md_s(0.9), md_s(0.999), md_s(1e-8), md_s(0.1), md_s(0.271), md_s(0.003)};
    for (int k = 0; k < 4; k++)
        args[8 + k] = md_ts(all[k]->t, n);
    assert_int_equal(md_list_n_args(list), 12);
    assert_ok(md_list_call(list, NULL, args, 12));
    const double c = fmin(1.0, 1.0 / (sqrt(sum_of_squares(was[0])) + 1e-6));
    for (int64_t i = 0; i < n; i++)
        for (int64_t e = 0; e < size[i]; e++) {
            const double g = c * was[0]->x[i][e], m = 0.9 * was[1]->x[i][e] + (1 - 0.9) * g;
            const double v = 0.999 * was[2]->x[i][e] + (1 - 0.999) * g * g, p = was[3]->x[i][e];
            const double want = p * (1 - 0.01 * 0.1) - 0.01 * (m / 0.271) / (sqrt(v / 0.003) + 1e-8);
            if (fabs(all[1]->x[i][e] - m) > 1e-6 || fabs(all[2]->x[i][e] - v) > 1e-6 ||
                fabs(all[3]->x[i][e] - want) > 1e-5 * (1 + fabs(want)))
                fail_msg("item %lld, element %lld: %.9g, expected %.9g", (long long)i, (long long)e, all[3]->x[i][e],
                         want);
        }
    for (int k = 0; k < 4; k++) {
        free_floats(all[k]);
        free_floats(was[k]);
    }
    md_list_destroy(&list);
}

static void test_catalogue(void **state)
{
    (void)state;
    const char *name, *formula, *description;
    int32_t n = 0;
    md_op *op = NULL;
    for (; md_list_catalogue(n, &name, &formula, &description), name; n++) {
        md_list *list = make(name);
        assert_true(description[0] && strchr(formula, '@'));
        md_list_destroy(&list);
    }
    assert_int_equal(n, 6);
    assert_fails(md_op_create(&op, context, "unscale", NULL), MD_INVALID_ARGUMENT, "a formula over lists");
}

/* ---- What it says of itself */

static int collect(void *user, const char *text, size_t n_bytes)
{
    strncat(user, text, n_bytes);
    return 0;
}

/* Every step, and every reduction of a step. */
static void test_explain_all(void **state)
{
    char text[4000] = "";
    md_context *own = NULL; /* it compiles nothing */
    md_list *list = NULL;
    (void)state;
    assert_ok(md_context_create(&own, &(md_context_options){.device = "host", .threads = 1, .cc = "/nonexistent"}));
    assert_ok(md_list_create(&list, own,
                             "let n = sum[t,i](X@t[i]); let m = max[t,i](X@t[i]); Y@t[i] = X@t[i] / n; "
                             "S = sum[t,i](Y@t[i] * W[i] * m)",
                             NULL));
    assert_ok(md_list_explain(list, 0, collect, text));
    assert_string_equal(text,
                        "step 1, each 4096 elements of every item:\n"
                        "  part_0:f32[tile_0] = sum[at_0](X:f32[tile_0, at_0])\n"
                        "step 1, each 4096 elements of every item:\n"
                        "  part_2:f32[tile_0] = max[at_0](X:f32[tile_0, at_0])\n"
                        "step 2, numbers for all items:\n"
                        "  let all_0:f32[] = sum[k_0](part_0:f32[k_0]); let all_2:f32[] = max[k_2](part_2:f32[k_2]); "
                        "n:f32[] = all_0:f32[]; m:f32[] = all_2:f32[]; \n"
                        "step 3, every item:\n"
                        "  Y:f32[i] = (X:f32[i] / n:f32[]); \n"
                        "step 4, the whole of every item:\n"
                        "  part_5:f32[] = sum[i](((Y:f32[i] * W:f32[i]) * m:f32[]))\n"
                        "step 5, numbers for all items:\n"
                        "  let all_5:f32[] = sum[k_5](part_5:f32[k_5]); S:f32[] = all_5:f32[]; \n");
    md_list_destroy(&list);
    md_context_destroy(&own);
}

static void test_explain(void **state)
{
    (void)state;
    char text[20000] = "";
    md_list *list = make(CLIP);
    assert_ok(md_list_explain(list, 0, collect, text));
    assert_non_null(strstr(text, "step 1, each 4096 elements of every item"));
    assert_non_null(strstr(text, "step 2, numbers for all items"));
    assert_non_null(strstr(text, "step 3, every item"));
    assert_null(strstr(text, "step 4"));
    text[0] = 0;
    assert_ok(md_list_explain(list, 1, collect, text));
    assert_non_null(strstr(text, "\"kind\":\"reduce\""));
    text[0] = 0;
    assert_ok(md_check_formula(context, CLIP, NULL, 0, collect, text));
    assert_non_null(strstr(text, "a formula over lists, in 3 steps"));
    assert_non_null(strstr(text, "step 3: a combo over the list"));
    text[0] = 0;
    assert_ok(md_check_formula(context, CLIP, NULL, 1, collect, text));
    assert_non_null(strstr(text, "{\"lists\":true,\"steps\":[{\"kind\":\"reduce\",\"formulas\":[{\"formula\":"));
    md_list_destroy(&list);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_clip),        cmocka_unit_test(test_numbers),       cmocka_unit_test(test_softmax_of_all),
        cmocka_unit_test(test_rows),        cmocka_unit_test(test_order),         cmocka_unit_test(test_bits),
        cmocka_unit_test(test_explain),     cmocka_unit_test(test_adamw_clipped), cmocka_unit_test(test_catalogue),
        cmocka_unit_test(test_explain_all),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
