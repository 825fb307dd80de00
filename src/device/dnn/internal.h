/* What the files of this folder share: the functions of cuDNN, its plans, and the library of one device. Only where
 * CUDA is. */
#ifndef MD_DEVICE_DNN_INTERNAL_H
#define MD_DEVICE_DNN_INTERNAL_H

#include "device/cuda/internal.h"
#include "device/dnn/dnn.h"

#if MD_HAVE_CUDA

/* The part of cudnn_graph.h that is used here, so that the build needs no cuDNN. */
typedef struct md_dnn_functions {
    size_t (*version)(void);
    int (*create)(void **handle);
    int (*destroy)(void *handle);
    int (*set_stream)(void *handle, cudaStream_t stream);
    int (*desc_create)(int type, void **desc);
    int (*desc_set)(void *desc, int name, int type, int64_t n, const void *values);
    int (*desc_get)(const void *desc, int name, int type, int64_t most, int64_t *n, void *values);
    int (*desc_finalize)(void *desc);
    int (*desc_destroy)(void *desc);
    int (*execute)(void *handle, void *plan, void *pack);
} md_dnn_functions;

/* Answers of the heuristic that are looked at: of f32 most multiply in TF32, and are left out. */
enum { MD_DNN_ANSWERS = 8, MD_DNN_ANSWERS_F32 = 40, MD_DNN_DESCS = 8 + 3 * MD_DNN_ANSWERS_F32 };

/* A convolution and the library's plans for it. Lives as long as the device. */
typedef struct md_dnn_answers {
    struct md_dnn_answers *next;
    md_dev_cuda_conv what; /* rank 0 */
    int32_t n, n_descs;
    void *plan[MD_DEV_CUDA_CONV_RANKS]; /* among the descriptors */
    void *desc[MD_DNN_DESCS]; /* all of them */
    bool is_loaded[MD_DEV_CUDA_CONV_RANKS]; /* its kernel ran once */
} md_dnn_answers;

enum { MD_DNN_BUCKETS = 64 };
struct md_dev_cuda_dnn {
    md_dnn_functions f;
    void *handle, *maker; /* for runs, and for making and loading plans: a handle has one stream at a time */
    pthread_mutex_t lock; /* of the table, and of runs */
    pthread_mutex_t lock_of_making; /* taken before the other one */
    md_dnn_answers *plans[MD_DNN_BUCKETS]; /* by digest of the convolution */
    int32_t n_plans;
};

/** The library of a device; starts it at the first call. NULL if it is missing, or of another version. Thread-safe. */
struct md_dev_cuda_dnn *md_dnn_start(md_dev_cuda *dev);

/** Asks for the plans of a convolution; NULL if memory is short. The lock of making is held. */
md_dnn_answers *md_dnn_ask(const struct md_dev_cuda_dnn *dnn, const md_dev_cuda_conv *what, int64_t workspace_bytes);
void md_dnn_answers_free(md_dnn_answers *plans, const md_dnn_functions *f);
/** Enqueues one of the plans; status of the library. The handle's lock is held. */
int md_dnn_execute(const md_dnn_functions *f, void *handle, void *plan, md_stream stream,
                   void *const data[MD_DEV_CUDA_CONV_TENSORS], void *workspace);

#endif

#endif
