/* md_agree in one process: memory that is short is an error and loses nothing; what differs between ranks is named. */
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
    assert_ok(
        md_context_create(&context, &(md_context_options){.device = "host", .threads = 1, .select = MD_SELECT_MODEL}));
    assert_ok(
        md_op_create(&op, context, "Y[i] = sum[j](X[i,j])", &(md_op_options){.hints = "(i=16,j=8) (i=1024,j=8)"}));
    call(op, 4);
    call(op, 7);
    assert_ok(md_op_wait(op)); /* nothing is allocated in the background while allocations are counted */
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
            assert_true(fault_living() <= living); /* less: the job that built a kernel is given back late */
            n_failed += status != MD_OK;
        }
    assert_true(n_failed > 20);
    md_op_destroy(&op);
    md_context_destroy(&context);
}

/* Lines are keys of ops, whose parts stand between " | ". */
static void what_differs_is_named(void **state)
{
    (void)state;
    static const struct {
        const char *first, *other, *part; /* NULL: equal */
    } row[] = {
        {"", "", NULL},
        {"a | x | y\nb | x\n", "b | x\na | x | y\n", NULL},
        {"a | x\nb | y\n", "a | x\n", "rank 5 lacks the op of rank 3: b | y"},
        {"a | x\n", "a | x\nb | y\n", "rank 3 lacks the op of rank 5: b | y"},
        {"a | x\n", "", "rank 5 lacks the op of rank 3: a | x"},
        {"a | x | y\n", "a | x | z\n", "rank 5 has 'z', rank 3 'y', of the op a"},
        {"a | w | y\n", "a | x | y\n", "rank 5 has 'x', rank 3 'w', of the op a"},
        {"a | x | y | z\n", "a | x | yy | z\n", "rank 5 has 'yy', rank 3 'y', of the op a"},
        {"a | x\nab | x\n", "a | x\nab | y\n", "rank 5 has 'y', rank 3 'x', of the op ab"},
        {"a | x\n", "a | x\na | y\n", "rank 3 lacks the op of rank 5: a | y"}, /* the other has this one, too */
        {"a | x\na | y\n", "a | x\n", "rank 5 lacks the op of rank 3: a | y"},
        {"a | x\n", "ab | x\n", "rank 5 lacks the op of rank 3: a | x"},
        {"a | x | y\n", "a | x\n", "rank 5 has 'x', rank 3 'x | y', of the op a"},
        {"a | x\n", "a | x | y\n", "rank 5 has 'x | y', rank 3 'x', of the op a"},
        {"abc\n", "abd\n", "rank 5 lacks the op of rank 3: abc"},
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        const md_status s = md_ss_check_ops(3, row[i].first, 5, row[i].other);
        if (s != (row[i].part ? MD_INVALID_ARGUMENT : MD_OK) || (row[i].part && !strstr(md_last_error(), row[i].part)))
            fail_msg("%zu: %s, '%s', not '%s'", i, md_status_name(s), s ? md_last_error() : "", row[i].part);
    }
}

static md_ss_hello hello_of(const char *device, const char *environment)
{
    md_ss_hello h = {0};
    snprintf(h.device, sizeof h.device, "%s", device);
    snprintf(h.environment, sizeof h.environment, "%s", environment);
    return h;
}

/* The first rank that has another device or another environment than rank 0; the device is named first. */
static void the_first_difference_is_noted(void **state)
{
    (void)state;
    static const struct {
        const char *device[3], *environment[3];
        int32_t differing;
        const char *text;
    } row[] = {
        {{"d", "d", "d"}, {"e", "e", "e"}, -1, ""},
        {{"d", "d", "c"}, {"e", "e", "e"}, 2, "rank 2 runs on 'c', rank 0 on 'd'"},
        {{"d", "c", "b"}, {"e", "e", "e"}, 1, "rank 1 runs on 'c', rank 0 on 'd'"},
        {{"d", "d", "d"}, {"e", "e", "f"}, 2, "rank 2: f; rank 0: e"},
        {{"d", "d", "c"}, {"e", "f", "e"}, 1, "rank 1: f; rank 0: e"},
        {{"d", "c", "d"}, {"e", "f", "e"}, 1, "rank 1 runs on 'c', rank 0 on 'd'"},
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        md_ss_hello hello[3];
        md_agreement found = {0};
        for (int r = 0; r < 3; r++)
            hello[r] = hello_of(row[i].device[r], row[i].environment[r]);
        md_ss_note_difference(&found, hello, 3);
        assert_int_equal(found.differing, row[i].differing);
        if (!strstr(found.difference, row[i].text) || (!*row[i].text && *found.difference))
            fail_msg("%zu: '%s'", i, found.difference);
    }
}

/* A record as another rank sends it: a digest, numbers of words and stages, the words, two names for each stage. */
static bool is_read(int32_t n_words, int32_t n_stages, int32_t more)
{
    enum { MOST = 2 * (MD_DS_KEY_WORDS + 2) * 8 + 4 * (MD_ST_MAX_STAGES + 2) };
    char bytes[MOST] = {0};
    const size_t head = sizeof(md_digest128), words = (size_t)(n_words > 0 ? n_words : 0) * sizeof(int64_t),
                 names = 2 * (size_t)(n_stages > 0 ? n_stages : 0); /* empty ones, which end at once */
    const size_t n = head + 2 * sizeof(int32_t) + words + names + (size_t)(int64_t)more;
    md_ss_record r;
    memcpy(bytes + head, &n_words, sizeof n_words);
    memcpy(bytes + head + sizeof n_words, &n_stages, sizeof n_stages);
    char *own = malloc(n); /* reading beyond it would end the program */
    assert_true(n < MOST && own);
    memcpy(own, bytes, n);
    const bool is = md_ss_record_read(&r, own, n);
    free(own);
    return is;
}

static void records_have_bounds(void **state)
{
    (void)state;
    assert_true(is_read(0, 1, 0) && is_read(3, 2, 0));
    assert_true(is_read(MD_DS_KEY_WORDS, 1, 0) && is_read(1, MD_ST_MAX_STAGES, 0));
    assert_false(is_read(-1, 1, 0) || is_read(MD_DS_KEY_WORDS + 1, 1, 0));
    assert_false(is_read(1, 0, 0) || is_read(1, -1, 0) || is_read(1, MD_ST_MAX_STAGES + 1, 0));
    assert_false(is_read(3, 2, 1)); /* a byte that belongs to nothing */
    for (int32_t less = 1; less <= 3 * 8 + 4 + 24; less++)
        assert_false(is_read(3, 2, -less));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(records_have_bounds),
        cmocka_unit_test(what_differs_is_named),
        cmocka_unit_test(the_first_difference_is_noted),
        cmocka_unit_test(memory_that_is_short),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
