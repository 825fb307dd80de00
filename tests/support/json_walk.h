/* A text of JSON that is wrong in one place, for each place: programs that read it must say so, or do as before. */
#ifndef MD_TESTS_SUPPORT_JSON_WALK_H
#define MD_TESTS_SUPPORT_JSON_WALK_H

#include "support/check.h"

#include <jansson.h>

/** `what`: what stands at `path` now, as JSON; "left out". */
typedef void (*json_walk_fn)(void *user, const char *path, const char *what);

/* Puts other values in the place of a value, which is then put back. */
static inline void json_walk_at(json_t *parent, const char *key, size_t at, const char *path, json_walk_fn fn,
                                void *user)
{
    static const char *const integers[] = {"-1",         "0",   "1",     "2",    "3", "1000",
                                           "5000000000", "0.5", "\"1\"", "null", "[]"};
    static const char *const texts[] = {
        "\"\"",
        "\"9 9\"",
        "\"3\"",
        "\"d0, 2\"",
        "\"4, 4, 4\"",
        "\"0 - 1\"",
        "\"0 - 1, 4\"",
        "\"9223372036854775807\"",
        "\"2, 1\"",
        "\"9223372036854775807, 9223372036854775807\"",
        "\"exhaustive\"",
        "\"2023-11-31T22:13:20Z\"",
        "\"row_looped/x1\"",
        "\"0123456789abcdef0123456789abcdeg\"",
        "\"a text of more than seventy characters, for what takes some sixty of them only\"",
        "\"i64\"",
        "\"d0 - 4\"",
        "7",
        "null"};
    static const char *const others[] = {"[]", "{}", "null", "[[0]]", "[{}]", "[7]", "true"};
    json_t *const value = key ? json_object_get(parent, key) : json_array_get(parent, at);
    const char *const *list = json_is_number(value) ? integers : json_is_string(value) ? texts : others;
    const size_t n = json_is_number(value) ? 11 : json_is_string(value) ? 19 : 7;
    json_incref(value);
    for (size_t i = 0; i < n; i++) {
        json_t *other = json_loads(list[i], JSON_DECODE_ANY, NULL);
        if (!json_equal(other, value)) {
            assert_int_equal(key ? json_object_set(parent, key, other) : json_array_set(parent, at, other), 0);
            fn(user, path, list[i]);
        }
        json_decref(other);
    }
    assert_int_equal(key ? json_object_del(parent, key) : json_array_remove(parent, at), 0);
    fn(user, path, "left out");
    assert_int_equal(key ? json_object_set_new(parent, key, value) : json_array_insert_new(parent, at, value), 0);
}

/** Calls fn for each value inside `value` and each other value there. Begin with the path "". */
static inline void json_walk(json_t *value, const char *path, json_walk_fn fn, void *user)
{
    enum { MOST_KEYS = 24 };
    char inner[256], keys[MOST_KEYS][24];
    const char *key;
    json_t *item;
    size_t i = 0;
    json_object_foreach(value, key, item) /* the object's own keys go with what is taken out */
    {
        assert_true(i < MOST_KEYS);
        snprintf(keys[i++], sizeof *keys, "%s", key);
    }
    for (size_t k = 0; k < json_object_size(value); k++) {
        snprintf(inner, sizeof inner, "%s.%s", path, keys[k]);
        json_walk(json_object_get(value, keys[k]), inner, fn, user);
        json_walk_at(value, keys[k], 0, inner, fn, user);
    }
    for (i = 0; i < json_array_size(value); i++) {
        snprintf(inner, sizeof inner, "%s[%zu]", path, i);
        json_walk(json_array_get(value, i), inner, fn, user);
        json_walk_at(value, NULL, i, inner, fn, user);
    }
}

#endif
