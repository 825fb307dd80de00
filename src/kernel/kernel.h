/* What a kernel is to the library, its text, and where texts are dumped. */
#ifndef MD_KERNEL_KERNEL_H
#define MD_KERNEL_KERNEL_H

#include "base/hash.h"
#include "base/log.h"
#include "base/strbuf.h"

#include <md/md.h>
#include <stdatomic.h>
#include <stdbool.h>

/* ---- kernel.c */

/* What a kernel is between the family that writes it, the build that compiles it and the device that launches it. */

enum { MD_KN_MAX_PARAMS = 256, MD_KN_MAX_LAUNCHES = 4, MD_KN_MAX_TENSORS = 32, MD_KN_MAX_DIMS = 48 };

/* Counters: a little device memory of each stream that is zero when the stream is first used and that only kernels
 * ever change: what one launch leaves, the next one on that stream finds. A protocol owns some units of it and keeps
 * its own sense there (an epoch, or counts that end at zero), because a memset in front of a launch would cost more
 * than the launch. A captured graph has counters of its own; two instances of it must not run at once. */
enum { MD_KN_COUNTER_UNIT = 65536, MD_KN_COUNTER_BYTES = 36 * MD_KN_COUNTER_UNIT };

/* ---- Parameters: every kernel of a stage gets one struct of 8-byte words, packed per call from this list. */
typedef enum md_kn_param_kind {
    MD_KN_POINTER = 0, /* data of tensor a;      named t<a> */
    MD_KN_STRIDE, /* stride of axis b of tensor a, in elements; named s<a>_<b> */
    MD_KN_EXTENT, /* size of axis b of tensor a; named e<a>_<b> */
    MD_KN_SIZE, /* size of dim a;                named n<a> */
    MD_KN_SCALAR, /* scalar a, as double or int64; named c<a> */
    MD_KN_WORKSPACE, /* pointer to the launch's workspace + b bytes; named work<a> */
    MD_KN_REPORT, /* md_kn_report *;             named report */
    MD_KN_BLOCKS, /* number of blocks of the launch; named blocks */
    MD_KN_STAGE, /* const md_kn_call *, for host functions only; named call */
    /* pointer to the stream's counters + b * MD_KN_COUNTER_UNIT; named counters<a>. See MD_KN_COUNTER_BYTES */
    MD_KN_COUNTERS,
    /* word b of tensor map a of the launch; 16 in a row, at the head of the list; named map<a>. Filled by the device */
    MD_KN_MAP,
    MD_KN_PAD, /* nothing; named pad<a> */
    MD_KN_PACKED /* pointer to the packed operands; named packed */
} md_kn_param_kind;

typedef struct md_kn_param {
    uint8_t kind, a, b;
    uint8_t is_real; /* SCALAR: double word, else int64 */
} md_kn_param;

/* How Hopper's copy engine sees a tensor: dims, fastest first, each the product of some dims of the formula that lie
 * in one run of memory. */
enum { MD_KN_MAX_MAPS = 4, MD_KN_MAP_WORDS = 16, MD_KN_MAP_RANK = 3, MD_KN_MAP_DIMS = 4, MD_KN_MAP_AXES = 5 };
/* The copy engine asks for lines at multiples of 16 bytes, and reads at a third of its speed where they are not at
 * multiples of 64 (seen). */
enum { MD_KN_COPY_LINE = 128 };
typedef struct md_kn_map {
    uint8_t tensor, dtype, swizzle; /* bytes of the swizzle: 0, 32, 64, 128 */
    uint8_t shrinks; /* 1: the box has no more of dim 1 than the tensor, rounded up to 8 */
    /* 1: not the tensor but a copy of it in the workspace, packed, with lines padded to whole pieces of MD_KN_COPY_LINE
     * bytes. The copies follow each other in the order of the maps, each on a boundary of 256 bytes. */
    uint8_t is_copy;
    uint8_t n_dims[MD_KN_MAP_RANK]; /* 0: a dim of size 1 */
    uint8_t dim[MD_KN_MAP_RANK][MD_KN_MAP_DIMS];
    uint8_t axis[MD_KN_MAP_RANK]; /* of the tensor: its stride; that of the last of the dims */
    uint16_t box[MD_KN_MAP_RANK];
    /* above 0: the dims are instead so many axes of the tensor, fastest first, which may be any */
    uint8_t n_axes, axes[MD_KN_MAP_AXES];
    uint16_t axes_box[MD_KN_MAP_AXES];
} md_kn_map;

typedef union md_kn_word {
    void *p;
    int64_t i;
    double d;
} md_kn_word;

/* Where kernels leave an index out of range; first one wins. Lives as long as the op (GPU: as the context). A GPU
 * kernel gets the address of one in device memory; the device copies it to where the host reads it (md_dev_report). */
typedef struct md_kn_report {
    _Atomic uint32_t is_set;
    int32_t tensor, axis;
    int64_t value;
} md_kn_report;

/* ---- The shape of one call, as envelopes and geometry see it; arrays by formula tensor and dim id. */
typedef struct md_kn_shape {
    int64_t size[MD_KN_MAX_DIMS];
    int64_t stride[MD_KN_MAX_TENSORS][MD_MAX_RANK]; /* in elements */
    int64_t extent[MD_KN_MAX_TENSORS][MD_MAX_RANK];
    uint32_t contiguous; /* bit t: tensor t is row-major without gaps (axes of size 1 do not count) */
    uint32_t unit; /* bit t: the last axis has stride 1, or size <= 1 */
    uint32_t aligned; /* bit t: data is 64-byte aligned and strides of the other axes are multiples of 64 bytes */
    /* the same for 16 bytes, and the last axis is whole pieces of 16 bytes: what the copy engine of GPUs asks for */
    uint32_t aligned16;
} md_kn_shape;

/* The data of one call: what parameters are packed from, and what host functions get. */
typedef struct md_kn_call {
    const md_kn_shape *shape;
    void *data[MD_KN_MAX_TENSORS]; /* by formula tensor; stored temps included */
    md_kn_word scalar[16];
    void *workspace; /* 64-byte aligned; of the launch sequence */
    /* memory for the packed operands, and the kernel that has packed them there, NULL: none has yet. `packed` NULL:
     * they are packed into the end of the workspace at each run */
    void *packed;
    const void *packed_by;
    void *counters; /* MD_KN_COUNTER_BYTES of the stream; NULL where no launch asks for them */
    md_kn_report *report;
    int64_t blocks;
    const void *stage; /* const md_st_stage *, program: for host functions; opaque to lower layers */
    const void *program;
    /* md_stream and md_dev * of the call, for functions that launch by themselves (a library on a GPU) */
    void *stream, *device;
    int32_t threads, launch; /* launch: which of the variant's this is */
    const char *variant; /* name; for devices that only say how long it takes */
} md_kn_call;

void md_kn_pack(md_kn_word *out, const md_kn_param *list, int32_t n, const md_kn_call *call);

/* ---- Sources */
enum { MD_KN_ENTRY = 160 }; /* bytes of a kernel's name */
/* A host kernel. Blocks [first, last) of the launch; scratch is the lane's own, as large as the geometry asked,
 * 64-byte aligned. */
typedef void (*md_kn_host_entry)(const md_kn_word *params, int64_t first, int64_t last, void *scratch);
/* A host function that does a whole launch by itself (a library call). Parameters are not packed for it. */
typedef md_status (*md_kn_host_function)(const md_kn_call *call);

typedef enum md_kn_code { MD_KN_TEXT, MD_KN_FUNCTION } md_kn_code;

typedef struct md_kn_launch_source {
    md_kn_code code;
    md_strbuf text; /* TEXT: complete source, includes resolved */
    char entry[MD_KN_ENTRY]; /* TEXT: name of the entry point */
    char origin[192]; /* op, stage and variant that it was first made for, for people */
    char label[96]; /* a variant of which it is a launch, for people */
    const char *role; /* what it does for variants that share it, such as "gemm_sum"; NULL: it is the variant's own */
    md_kn_host_function function;
    int32_t n_params;
    md_kn_param param[MD_KN_MAX_PARAMS];
    int32_t n_maps;
    md_kn_map map[MD_KN_MAX_MAPS];
} md_kn_launch_source;

typedef struct md_kn_source {
    int32_t n_launches;
    /* bits of the tensors that the first launch packs, from which nothing else reads then; it is left out where their
     * packed form is there. 0: no launch packs */
    uint32_t packs;
    md_kn_launch_source launch[MD_KN_MAX_LAUNCHES];
} md_kn_source;
void md_kn_source_finish(md_kn_source *source);

/* ---- Geometry of one launch at one shape */
typedef struct md_kn_geometry {
    int64_t blocks; /* 0: nothing to launch */
    int64_t grain; /* blocks a thread takes at a time; >= 1 */
    int64_t scratch_bytes; /* per lane (host), dynamic shared memory (cuda) */
    /* cuda; grid[0] <= 2^31 - 1, the others <= 65535. `blocks` > 0 says that there is something to launch */
    int32_t grid[3], block[3];
    int32_t cluster; /* cuda: blocks of a cluster along x, a divisor of grid[0]; 0 or 1: none */
    bool is_cooperative; /* cuda: all blocks must run at once (a grid barrier inside) */
    /* cuda: blocks may be there before what is ahead in the stream has ended; they wait for it themselves */
    bool overlaps;
} md_kn_geometry;

typedef struct md_kn_geometries {
    md_kn_geometry launch[MD_KN_MAX_LAUNCHES];
    int64_t workspace_bytes; /* shared by the launches */
    int64_t packed_bytes; /* of these, at their end: what the first launch packs */
} md_kn_geometries;

/* ---- Envelope: where a variant is correct */
typedef struct md_kn_envelope md_kn_envelope;
struct md_kn_envelope {
    int64_t lo[MD_KN_MAX_DIMS], hi[MD_KN_MAX_DIMS]; /* by dim id, inclusive; hi 0 means no limit */
    uint32_t unit; /* tensors that must have the bit in md_kn_shape.unit */
    uint32_t contiguous;
    uint32_t aligned, aligned16;
    int64_t row_points_max; /* 0: none; else the number of points of `row_dims` must not exceed it */
    int32_t n_row_dims, row_dim[MD_MAX_RANK];
    /* what else must hold; NULL: nothing. As md_kn_envelope_miss */
    const char *(*rule_miss)(const md_kn_envelope *envelope, const md_kn_shape *shape);
    const void *rule; /* for it; outlives the envelope */
    int32_t rule_value[8];
};
/** NULL where it holds, else a static text that says which part does not ("longer than it was compiled for", "strided
 * input"). */
const char *md_kn_envelope_miss(const md_kn_envelope *envelope, const md_kn_shape *shape);
/** The same where only the first n dims have sizes and limits. */
const char *md_kn_envelope_miss_of(const md_kn_envelope *envelope, const md_kn_shape *shape, int32_t n_dims);

/* ---- text.c */

/* The text of a kernel as the compiler sees it. */

/** Appends the tokens of a C, C++ or CUDA text, separated by single spaces; each preprocessor line is a line of its
 * own. Texts that differ only in comments, white space, or in where a string literal is cut give the same tokens. Raw
 * string literals are not understood. */
void md_kn_text_tokens(md_strbuf *out, const char *text);

/** The digest of a text's tokens. OUT_OF_MEMORY. */
md_status md_kn_text_digest(md_digest128 *out, const char *text);

/* ---- dump.c */

/* The folder of MD_DUMP: files for people who look into what the library makes. NULL writes nothing. Thread-safe. */

typedef struct md_dump md_dump;

/** Makes the folder with mode 0700 where it does not exist. What cannot be written is logged once, as a warning, and is
 * no failure. `log` must outlive it. OUT_OF_MEMORY. */
md_status md_dump_open(md_dump **out, const char *folder, const md_log *log);
void md_dump_close(md_dump **dump);
/** Writes <folder>/<name><ending>, which replaces an earlier one. In `name` a '/' becomes '.', and what should not be
 * in a file's name '_'. */
void md_dump_put(md_dump *dump, const char *name, const char *ending, const void *bytes, size_t n);

#endif
