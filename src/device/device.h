/* A device: memory, compiling, loading, launching. It never sees a formula. */
#ifndef MD_DEVICE_DEVICE_H
#define MD_DEVICE_DEVICE_H

#include "base/log.h"
#include "base/pool.h"
#include "kernel/kernel.h"

typedef enum md_dev_kind { MD_DEV_HOST, MD_DEV_CUDA, MD_DEV_SIM } md_dev_kind;

/* What models and families ask. Rates are measured when the device is opened (a few ms), and rounded to quarter octaves. */
typedef struct md_dev_facts {
    md_dev_kind kind;
    char name[64];
    char compiler[128]; /* "gcc 12.2.0", "" where there is none */
    char flags[512]; /* of the kernel compiler */
    int32_t threads; /* lanes that run blocks at once (host), SMs (cuda) */
    int32_t vector_bytes; /* 64, 32, 16 */
    int64_t l1_bytes, l2_bytes, l3_bytes; /* per lane, per lane, shared */
    double memory_gbps; /* copy speed counted as read + write bytes, all lanes, beyond the private caches */
    double lane_gbps; /* the same of one lane alone; <= memory_gbps */
    double cache_gbps; /* per lane, from L2 */
    double gflops; /* f32 fma, all lanes */
    double launch_us; /* fixed cost of a launch that uses more than one lane; a single block costs a call */
    bool can_compile;
    bool has_blas;
} md_dev_facts;

typedef struct md_dev_kernel md_dev_kernel; /* one loaded launch; immutable */
typedef struct md_dev md_dev;

typedef struct md_dev_ops {
    const char *name;
    void (*destroy)(md_dev *dev);
    md_status (*alloc)(void **out, md_dev *dev, size_t n_bytes);
    void (*free)(md_dev *dev, void *p);
    md_status (*copy)(md_dev *dev, void *to, const void *from, size_t n_bytes);
    md_status (*sync)(md_dev *dev, md_stream stream);
    /* Compiles one launch's text to a loadable binary (malloc'ed, the caller frees). May take seconds; thread-safe. */
    md_status (*compile)(void **binary, size_t *n_bytes, md_dev *dev, const md_kn_launch_source *source);
    /* Loads a binary, or wraps a function (binary NULL). */
    md_status (*load)(md_dev_kernel **out, md_dev *dev, const void *binary, size_t n_bytes, const md_kn_launch_source *source);
    void (*unload)(md_dev *dev, md_dev_kernel *kernel);
    /* Launches: params packed by the caller (n words; none for a function, which reads `call`). No blocks launch nothing.
     * Host: done on return. */
    md_status (*launch)(md_dev *dev, md_stream stream, const md_dev_kernel *kernel, const md_kn_geometry *geometry,
                        const md_kn_word *params, int32_t n, const md_kn_call *call);
} md_dev_ops;

struct md_dev {
    const md_dev_ops *ops;
    md_dev_facts facts;
    md_pool *pool; /* borrowed from the context */
    const md_log *log; /* borrowed */
};

typedef struct md_dev_options {
    const char *device; /* "host", "auto" */
    const char *cc; /* a program and its own options, separated by spaces; NULL: cc */
    int32_t compile_limit_ms; /* a compiler that runs longer is killed; 0: 60000 */
    md_pool *pool;
    const md_log *log;
} md_dev_options;

/** Opens the device that the name asks for. UNSUPPORTED, DEVICE. */
md_status md_dev_open(md_dev **out, const md_dev_options *options);
void md_dev_close(md_dev **dev);

#endif
