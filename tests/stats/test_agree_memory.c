/* md_agree where memory is short: an error, and nothing is lost. */
#include "stats/agree.h"
#include "support/check.h"
#include "support/fault.h"

#include <string.h>

enum { COLUMNS = 8 };

static void call(md_op *op, int64_t rows)
{
    float x[8 * COLUMNS] = {0}, y[8];
    const int64_t size[] = {rows, COLUMNS};
    const md_tensor ty = md_tensor_make(y, MD_F32, 1, size), tx = md_tensor_make(x, MD_F32, 2, size);
    assert_ok(md_call(op, NULL, (md_arg[]){md_t(&ty), md_t(&tx)}, 2));
}

/* An exchange in which rank 1 says what rank 0 says, but that it has another choice for the first shape. */
static int32_t gather_of_a_double(void *user, void *all, const void *mine, size_t n_bytes, double seconds, char *why)
{
    int32_t *number = user;
    char *other = (char *)all + n_bytes;
    (void)seconds, (void)why;
    memcpy(all, mine, n_bytes);
    memcpy(other, mine, n_bytes);
    ++*number;
    if (*number == 1)
        ((md_ss_hello *)(void *)other)->choices[0]++;
    if (*number == 2 && n_bytes >= sizeof(md_ss_choice_id))
        ((md_ss_choice_id *)(void *)other)->what++;
    return 0;
}

static void memory_that_is_short(void **state)
{
    (void)state;
    int32_t number = 0, n_failed = 0;
    md_exchange x = {.n_ranks = 2, .gather = gather_of_a_double, .user = &number};
    md_context *context;
    md_op *op;
    md_agreement found;
    assert_ok(md_context_create(&context, &(md_context_options){.device = "host", .threads = 1}));
    assert_ok(
        md_op_create(&op, context, "Y[i] = sum[j](X[i,j])", &(md_op_options){.hints = "(i=16,j=8) (i=1024,j=8)"}));
    call(op, 4);
    call(op, 7);
    assert_ok(md_agree(&found, context, &x));
    assert_int_equal(found.n_disputed, 1);
    for (int is_once = 0; is_once < 2; is_once++)
        for (int64_t n = 1, more = 1; more; n++) {
            const int64_t living = fault_living();
            number = 0;
            fault_at(n, is_once);
            const md_status status = md_agree(&found, context, &x);
            more = fault_happened();
            fault_after(0);
            /* no vote goes on without what was refused: other ranks would choose otherwise */
            assert_int_equal(status, more ? MD_OUT_OF_MEMORY : MD_OK);
            assert_int_equal(fault_living(), living);
            n_failed += status != MD_OK;
        }
    assert_true(n_failed > 20);
    md_op_destroy(&op);
    md_context_destroy(&context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_that_is_short),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
