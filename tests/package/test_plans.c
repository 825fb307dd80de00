/* What comes of a package whose plan is wrong in one place: golden/plans.txt has a line for each value of a plan and
 * each other value there, with the error, or with what a call computes then. MD_UPDATE_GOLDEN=1 writes it anew: look at
 * the diff, a plan that was refused should not be taken. */
#include "base/json.h"
#include "base/status.h"
#include "package/package.h"
#include "support/golden.h"
#include "support/json_walk.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* y = relu(x w'), seen as half as many rows of four; z = v + 2 d0 of a view of y's memory's first row. */
static const char base[] =
    "{\"version\": 1, \"library\": \"%s\", \"device\": \"host\", \"name\": \"plans\", \"hints\": \"16\","
    "\"select\": 0, \"numeric\": 0, \"dims\": [[0, 0], [1, 0]], \"weights\": [32, 28, 0],"
    "\"conditions\": [\"d0 %% 2 == 0\", \"d0 < 9\"], \"examples\": [[4, 3], [0, 1]],"
    "\"tensors\": ["
    "{\"name\": \"x\", \"role\": 1, \"dtype\": \"f32\", \"size\": \"d0, 4\", \"stride\": \"4, 1\"},"
    "{\"name\": \"w\", \"role\": 3, \"dtype\": \"f32\", \"size\": \"2, 4\", \"weight\": 0},"
    "{\"name\": \"v\", \"role\": 3, \"dtype\": \"f32\", \"size\": \"2, 3\", \"stride\": \"4, 1\", \"weight\": 1},"
    "{\"name\": \"y\", \"role\": 2, \"dtype\": \"f32\", \"size\": \"d0, 2\", \"seen_size\": \"d0 // 2, 4\","
    " \"seen_stride\": \"4, 1\"},"
    "{\"name\": \"t\", \"role\": 0, \"dtype\": \"f32\", \"size\": \"d0, 2\"},"
    "{\"name\": \"half\", \"base\": 5, \"dtype\": \"f32\", \"size\": \"d0\", \"stride\": \"2\", \"offset\": \"1\"},"
    "{\"name\": \"u\", \"role\": 1, \"dtype\": \"f32\", \"size\": \"d1\"},"
    "{\"name\": \"z\", \"role\": 2, \"dtype\": \"f32\", \"size\": \"d0\"},"
    "{\"name\": \"s\", \"role\": 2, \"dtype\": \"f32\", \"size\": \"2, d1\"},"
    "{\"name\": \"none\", \"role\": 3, \"dtype\": \"f32\", \"size\": \"0, 4\", \"weight\": 2}],"
    "\"calls\": ["
    "{\"formula\": \"Y:f32[b,n] = sum[k](X:f32[b,k] * W:f32[n,k])\", \"sizes\": \"n=2, k=4\", \"name\": \"product\","
    " \"args\": [5, 1, 2]},"
    "{\"formula\": \"Y:f32[b,n] = relu(X:f32[b,n])\", \"sizes\": \"n=2\", \"name\": \"relu\", \"args\": [4, 5]},"
    "{\"formula\": \"scalar k; Z:f32[i] = X:f32[i] + k\", \"args\": [\"2 * d0\", 8, 6]},"
    "{\"formula\": \"S:f32[i,j] = V:f32[i,0] + U:f32[j]\", \"name\": \"outer\", \"args\": [9, 3, 7]}]}";

static const float weights[2][8] = {{1, 2, 3, 4, -1, 0, 1, 0}, {1, 2, 3, 0, 5, 6, 7, 0}};
static char folder[] = "/tmp/md_plans_XXXXXX", before[4096];

static int set_up(void **state)
{
    (void)state;
    return !getcwd(before, sizeof before) || !mkdtemp(folder) || chdir(folder);
}

static int tear_down(void **state)
{
    (void)state;
    unlink("plan.mdp");
    return chdir(before) || rmdir(folder);
}

/* ---- What comes of a plan */

static void print_tensor(md_strbuf *out, const md_tensor *t)
{
    md_strbuf_printf(out, "; %s", md_dtype_name(t->dtype));
    for (int32_t a = 0; a < t->rank; a++)
        md_strbuf_printf(out, " %lld by %lld", (long long)t->size[a], (long long)t->stride[a]);
    for (int i = 0; i < 12; i++)
        md_strbuf_printf(out, "%s%g", i ? " " : ": ", ((const float *)t->data)[i]);
}

/* Calls with four rows and three columns, and prints what is computed. */
static md_status call(md_strbuf *out, md_package *p)
{
    static float data[2][32], result[8][64];
    md_tensor in[8], y[8];
    for (int i = 0; i < 32; i++)
        data[0][i] = data[1][i] = (float)(i % 5) - 1;
    memset(result, 0, sizeof result);
    in[0] = md_tensor_make(data[0], MD_F32, 2, (int64_t[]){4, 4});
    in[1] = md_tensor_make(data[1], MD_F32, 1, (int64_t[]){3});
    for (int i = 2; i < 8; i++)
        in[i] = in[1];
    const int32_t n = md_package_n_outputs(p);
    md_strbuf_printf(out, " %d and %d", (int)md_package_n_inputs(p), (int)n);
    MD_TRY(md_package_outputs(y, p, in));
    for (int32_t i = 0; i < n; i++)
        y[i].data = result[i];
    MD_TRY(md_package_call(p, NULL, in, y));
    for (int32_t i = 0; i < n; i++)
        print_tensor(out, &y[i]);
    return MD_OK;
}

static md_status begin_weight(void *user, int32_t i, const void **bytes, size_t *n)
{
    (void)user;
    static const size_t length[] = {32, 28, 0};
    *bytes = weights[i % 2];
    *n = length[i % 3];
    return MD_OK;
}

static void end_weight(void *user)
{
    (void)user;
}

static void hear_nothing(void *user, md_log_level level, const char *text)
{
    (void)user, (void)level, (void)text;
}

/* As one that was opened, whose ops the reference serves: kernels would take seconds. */
static md_status open_and_call(md_strbuf *out, md_package *p, const char *plan, const md_context_options *options)
{
    MD_TRY(md_pk_read(p, plan));
    MD_TRY(md_context_create(&p->context, options));
    MD_TRY(md_pk_build(p, &(md_pk_weights){begin_weight, end_weight, NULL}));
    return call(out, p);
}

/* Writes a package, which ends where a kernel is needed. */
static void try_plan(md_strbuf *out, const json_t *plan)
{
    const md_context_options options = {
        .device = "host", .threads = 1, .cache_dir = "", .cc = "/nonexistent/cc", .log = hear_nothing};
    const md_package_weight weight[3] = {{weights[0], 32}, {weights[1], 28}, {NULL, 0}};
    md_package opened = {0};
    char *text = json_dumps(plan, JSON_COMPACT);
    assert_non_null(text);
    md_status s = md_package_write("plan.mdp", text, weight, 3, &options);
    md_strbuf_printf(out, s == MD_COMPILE ? " written;" : " not written;");
    if (s == MD_COMPILE)
        s = open_and_call(out, &opened, text, &options);
    md_pk_finish(&opened);
    if (s != MD_OK)
        md_strbuf_printf(out, " %s: %.*s", md_status_name(s), (int)strcspn(md_last_error(), "\n"), md_last_error());
    free(text);
}

/* ---- Other values */

static md_strbuf said, right; /* all lines; what comes of the plan as it is */

static void note(void *plan, const char *path, const char *what)
{
    md_strbuf now = {0};
    if (!strcmp(path, ".library")) /* messages have the version */
        return;
    try_plan(&now, plan);
    const bool is_right = strcmp(md_strbuf_text(&now), md_strbuf_text(&right)) == 0;
    md_strbuf_printf(&said, "%s %s:%s\n", path, what, is_right ? " the same" : md_strbuf_text(&now));
    md_strbuf_finish(&now);
}

static void plans_come_to_what_they_did(void **state)
{
    (void)state;
    static const char path[] = MD_GOLDEN "/plans.txt";
    md_strbuf text = {0};
    md_strbuf_printf(&text, base, md_version());
    json_t *plan = json_loads(md_strbuf_text(&text), 0, NULL);
    assert_non_null(plan);
    note(plan, "", "as it is");
    try_plan(&right, plan);
    json_walk(plan, "", note, plan);
    check_golden(path, &said);
    json_decref(plan);
    md_strbuf_finish(&text);
    md_strbuf_finish(&said);
    md_strbuf_finish(&right);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(plans_come_to_what_they_did)};
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
