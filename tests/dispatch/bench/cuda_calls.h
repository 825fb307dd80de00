/* Counts the calls of the CUDA runtime and driver, by CUPTI where it is installed. */
#ifndef MD_TESTS_DISPATCH_CUDA_CALLS_H
#define MD_TESTS_DISPATCH_CUDA_CALLS_H

#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

typedef struct cupti_data { /* the beginning of CUpti_CallbackData */
    int site; /* 0: enter */
    const char *name;
} cupti_data;
typedef void (*cupti_callback)(void *user, int domain, uint32_t id, const cupti_data *data);
enum { CUPTI_DRIVER = 1, CUPTI_RUNTIME = 2 };

typedef struct cuda_calls {
    int n_runtime, n_driver;
    char names[400];
} cuda_calls;

static void count_cuda_call(void *user, int domain, uint32_t id, const cupti_data *data)
{
    cuda_calls *c = user;
    (void)id;
    if (data->site != 0)
        return;
    c->n_runtime += domain == CUPTI_RUNTIME;
    c->n_driver += domain == CUPTI_DRIVER;
    if (strlen(c->names) < 300 && !strstr(c->names, data->name))
        snprintf(c->names + strlen(c->names), sizeof c->names - strlen(c->names), "%s ", data->name);
}

/** Runs `work` and prints what it asked of CUDA. n_calls: for the print. */
static inline void count_cuda(void (*work)(void *user), void *user, int n_calls)
{
    cuda_calls calls = {0};
    void *lib = dlopen("libcupti.so", RTLD_NOW);
    int (*subscribe)(void **, cupti_callback, void *) =
        lib ? (int (*)(void **, cupti_callback, void *))(uintptr_t)dlsym(lib, "cuptiSubscribe") : NULL;
    int (*enable)(uint32_t, void *, int) =
        lib ? (int (*)(uint32_t, void *, int))(uintptr_t)dlsym(lib, "cuptiEnableDomain") : NULL;
    void *subscriber = NULL;
    if (!subscribe || !enable || subscribe(&subscriber, count_cuda_call, &calls) ||
        enable(1, subscriber, CUPTI_RUNTIME) || enable(1, subscriber, CUPTI_DRIVER)) {
        printf("{\"cuda_calls\": \"not counted: no CUPTI\"}\n");
        return;
    }
    calls = (cuda_calls){0};
    work(user);
    printf("{\"calls\": %d, \"runtime_calls\": %d, \"driver_calls\": %d, \"names\": \"%s\"}\n", n_calls,
           calls.n_runtime, calls.n_driver, calls.names);
    (void)enable(0, subscriber, CUPTI_RUNTIME);
    (void)enable(0, subscriber, CUPTI_DRIVER);
}

#endif
