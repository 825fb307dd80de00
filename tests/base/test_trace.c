/* Trace files. */
#include "support/check.h"

#include "base/clock.h"
#include "base/temp.h"
#include "base/trace.h"

#include <jansson.h>
#include <pthread.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

enum { N_THREADS = 4, N_EVENTS = 50 };

static md_temp folder;
static char path[sizeof folder.path + 16];

static int make_folder(void **state)
{
    (void)state;
    if (md_temp_make(&folder, NULL) != MD_OK)
        return 1;
    snprintf(path, sizeof path, "%s/trace.json", folder.path);
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    md_temp_remove(&folder);
    return 0;
}

static json_t *load(void)
{
    json_error_t error;
    json_t *list = json_load_file(path, 0, &error);
    if (!list)
        fail_msg("%s:%d: %s", path, error.line, error.text);
    assert_true(json_is_array(list));
    return list;
}

static void *write_events(void *trace)
{
    for (int i = 0; i < N_EVENTS; i++) {
        const md_trace_arg args[] = {{.name = "i", .number = i}, {.name = "text", .text = "a \"b\"\n\xff"}, {0}};
        const uint64_t now = md_clock_ns();
        if (i % 2)
            md_trace_mark(trace, "choice", "mark", args);
        else
            md_trace_span(trace, "build", "span", now - 5000, now, args);
    }
    return NULL;
}

static void events_of_many_threads_are_whole(void **state)
{
    (void)state;
    md_trace *trace = NULL;
    pthread_t thread[N_THREADS];
    assert_int_equal(md_trace_open(&trace, path), MD_OK);
    for (int i = 0; i < N_THREADS; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, write_events, trace), 0);
    for (int i = 0; i < N_THREADS; i++)
        pthread_join(thread[i], NULL);
    assert_int_equal(md_trace_close(&trace), MD_OK);
    assert_null(trace);
    json_t *list = load(), *event;
    size_t at;
    assert_int_equal(json_array_size(list), N_THREADS * N_EVENTS);
    json_array_foreach(list, at, event)
    {
        const char *phase = json_string_value(json_object_get(event, "ph"));
        assert_true(json_number_value(json_object_get(event, "ts")) >= 0.0);
        assert_string_equal(json_string_value(json_object_get(json_object_get(event, "args"), "text")), "a \"b\"\n?");
        if (phase[0] == 'X')
            assert_true(json_number_value(json_object_get(event, "dur")) == 5.0);
    }
    json_decref(list);
}

static void empty_is_an_array(void **state)
{
    (void)state;
    md_trace *trace = NULL;
    assert_int_equal(md_trace_open(&trace, path), MD_OK);
    assert_int_equal(md_trace_close(&trace), MD_OK);
    json_t *list = load();
    assert_int_equal(json_array_size(list), 0);
    json_decref(list);
}

/* Whoever never closes a trace, such as Python, leaves a whole array. */
static void is_whole_after_each_event(void **state)
{
    (void)state;
    md_trace *trace = NULL;
    assert_int_equal(md_trace_open(&trace, path), MD_OK);
    for (size_t n = 0; n < 4; n++) {
        json_t *list = load();
        assert_int_equal(json_array_size(list), n);
        json_decref(list);
        md_trace_mark(trace, "choice", "mark", NULL);
    }
    assert_int_equal(md_trace_close(&trace), MD_OK);
}

/* As of the contexts of a CPU and of a GPU in one process. */
static void two_add_to_one_file(void **state)
{
    (void)state;
    md_trace *trace[2] = {NULL};
    for (int round = 0; round < 2; round++) { /* the second begins anew */
        for (int i = 0; i < 2; i++)
            assert_int_equal(md_trace_open(&trace[i], path), MD_OK);
        for (int i = 0; i < 6; i++)
            md_trace_mark(trace[i % 2], "choice", "mark", NULL);
        for (int i = 0; i < 2; i++)
            assert_int_equal(md_trace_close(&trace[i]), MD_OK);
        json_t *list = load();
        assert_int_equal(json_array_size(list), 6);
        json_decref(list);
    }
}

static void set_size_limit(rlim_t n)
{
    struct rlimit limit;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    limit.rlim_cur = n < limit.rlim_max ? n : limit.rlim_max;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

/* The disk is full in the middle of an event. */
static void what_does_not_fit_is_left_out(void **state)
{
    (void)state;
    md_trace *trace = NULL;
    struct stat about;
    assert_int_equal(md_trace_open(&trace, path), MD_OK);
    md_trace_mark(trace, "choice", "mark", NULL);
    assert_int_equal(stat(path, &about), 0);
    set_size_limit((rlim_t)about.st_size + 20);
    md_trace_mark(trace, "choice", "mark", NULL);
    set_size_limit(RLIM_INFINITY);
    assert_int_equal(md_trace_close(&trace), MD_IO);
    json_t *list = load();
    assert_int_equal(json_array_size(list), 1);
    json_decref(list);
}

/* A pipe is written to its end by md_trace_close. */
static void a_pipe_gets_all(void **state)
{
    (void)state;
    int end[2];
    char name[32], text[4096] = "";
    md_trace *trace = NULL;
    assert_int_equal(pipe(end), 0);
    snprintf(name, sizeof name, "/dev/fd/%d", end[1]);
    assert_int_equal(md_trace_open(&trace, name), MD_OK);
    md_trace_mark(trace, "choice", "one", NULL);
    md_trace_mark(trace, "choice", "two", NULL);
    assert_int_equal(md_trace_close(&trace), MD_OK);
    close(end[1]);
    assert_true(read(end[0], text, sizeof text - 1) > 0);
    close(end[0]);
    json_t *list = json_loads(text, 0, NULL);
    assert_int_equal(json_array_size(list), 2);
    json_decref(list);
}

static void a_path_that_cannot_be_is_named(void **state)
{
    (void)state;
    md_trace *trace = NULL;
    assert_int_equal(md_trace_open(&trace, "/nonexistent/trace.json"), MD_IO);
    assert_non_null(strstr(md_last_error(), "/nonexistent/trace.json"));
    md_trace_mark(NULL, "choice", "nobody asked", NULL);
    md_trace_span(NULL, "build", "nobody asked", 0, 1, NULL);
    assert_int_equal(md_trace_close(&trace), MD_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(events_of_many_threads_are_whole), cmocka_unit_test(empty_is_an_array),
        cmocka_unit_test(is_whole_after_each_event),        cmocka_unit_test(two_add_to_one_file),
        cmocka_unit_test(what_does_not_fit_is_left_out),    cmocka_unit_test(a_pipe_gets_all),
        cmocka_unit_test(a_path_that_cannot_be_is_named),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
