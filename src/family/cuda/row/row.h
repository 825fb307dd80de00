/* What the row families of GPUs share: text, envelope, geometry and cost of row programs in which a group of threads
 * has a row. */
#ifndef MD_FAMILY_CUDA_ROW_ROW_H
#define MD_FAMILY_CUDA_ROW_ROW_H

#include "codegen/row/row.h"
#include "family/applies.h"
#include "family/family.h"

/* How lanes access memory: vectors that the envelope promises to be aligned; vectors whose place is computed at run
 * time; any strides; element after element, side by side, so that nothing has to be placed or shifted: of one row, or
 * of two or four rows at once, so that short rows, too, keep memory busy. */
typedef enum md_fa_cuda_align {
    MD_FA_CUDA_ALIGNED,
    MD_FA_CUDA_ANY,
    MD_FA_CUDA_STRIDED,
    MD_FA_CUDA_SINGLE,
    MD_FA_CUDA_SINGLE2,
    MD_FA_CUDA_SINGLE4
} md_fa_cuda_align;

typedef struct md_fa_cuda_row {
    const char *source; /* the template: "cuda/row_looped.cu" */
    int32_t lanes; /* threads of a row: a power of 2 up to 32, above that whole warps */
    int32_t vectors; /* 16-byte vectors, or single elements, that a thread loads at once */
    int32_t rows; /* groups of a block: its rows, if a group has one at once */
    md_fa_cuda_align align;
    bool keeps; /* expensive values are kept in registers between passes */
    bool merges; /* chunks are reduced one by one and merged, if the program allows it */
    bool is_resident; /* the row is read once, into registers: it must fit its threads */
    bool spreads; /* a launch of few blocks may have more of them, so that each SM has as many */
    bool holds_weights; /* what all rows share and only stores use is there for all of a thread's vectors at once */
    /* blocks of an SM for which the compiler leaves registers: 0 as many as fit; 1 half of them, so that a thread has
     * more registers; 2 one */
    int32_t occupancy;
} md_fa_cuda_row;

/** True if lanes go element by element. */
bool md_fa_cuda_row_is_single(md_fa_cuda_align align);
/** Rows that a group of threads has at once. */
int32_t md_fa_cuda_row_at_once(md_fa_cuda_align align);
/** True if contiguous tensors of these sizes have rows of a multiple of 16 bytes. */
bool md_fa_cuda_row_is_aligned(const md_fa_target *target, const int64_t *size);
/** True if tensors of these sizes are aligned as the config asks, and a block's registers fit an SM. Slow, since it
 * counts registers: call it last. */
bool md_fa_cuda_row_fits(const md_fa_target *target, const md_fa_cuda_row *row, const int64_t *size);
/** True if `occupancy` changes the kernel: the compiler is told another number of blocks than for smaller values. */
bool md_fa_cuda_row_has_occupancy(const md_fa_target *target, const md_fa_cuda_row *row);
/** Estimated registers of a thread. */
int32_t md_fa_cuda_row_registers(const md_fa_target *target, const md_fa_cuda_row *row);
/** Options for md_cg_row_print. */
md_cg_row_options md_fa_cuda_row_options(const md_fa_target *target, const md_fa_cuda_row *row);
/** Elements of a vector. */
int32_t md_fa_cuda_row_width(const md_fa_target *target, const md_fa_cuda_row *row);
/** True if only 16-bit results are stored. Exponentials then need fewer bits. */
bool md_fa_cuda_row_is_short(const md_fa_target *target);
/** True if some value is expensive enough to be kept. */
bool md_fa_cuda_row_can_keep(const md_fa_target *target);
/** How many loads all rows share and only stores use (weights, a bias). */
int32_t md_fa_cuda_row_epilogue_loads(const md_fa_target *target);
/** True if the stage reads one tensor along the row, from the first level on, in vectors of 16 bytes on its boundaries,
 * and besides it only what all rows share. */
bool md_fa_cuda_row_has_one_load(const md_fa_target *target);
md_status md_fa_cuda_row_emit(md_kn_source *out, const md_fa_target *target, const void *spec);
/** The same with a family's own macros in front, which are freed here. */
md_status md_fa_cuda_row_emit_with(md_kn_source *out, const md_fa_target *target, const md_fa_cuda_row *row,
                                   md_strbuf *defines);
void md_fa_cuda_row_envelope(md_kn_envelope *out, const md_fa_target *target, const void *spec);
void md_fa_cuda_row_geometry(md_kn_geometries *out, const md_fa_target *target, const void *spec,
                             const md_kn_shape *shape);
/** The numeric class, by whether chunks are merged and whether the place of vectors is computed at run time. */
md_fa_class md_fa_cuda_row_class(bool has_chunks, bool is_placed);
/** The factor by which loads along the axis move more bytes than they use: 1 if neighbours along it are neighbours in
 * memory. */
double md_fa_cuda_row_traffic(const md_fa_target *target);
/* What is fixed of a config whatever the sizes (md_fa_fixed). */
typedef struct md_fa_cuda_row_fixed {
    int32_t lanes, vectors, rows, threads; /* rows, threads: of a block */
    int32_t at_once; /* md_fa_cuda_row_at_once */
    int32_t epilogue_loads; /* md_fa_cuda_row_epilogue_loads */
    md_fa_cuda_align align;
    bool is_resident, is_online, is_read_once, has_arg;
    double width; /* of a vector, in elements */
    double resident; /* blocks on an SM */
    double traffic; /* md_fa_cuda_row_traffic, less what neighbouring rows of a block share */
    double scattered_us; /* of a vector whose elements are loaded one by one; 0: none is */
    double exchanges_us, latency_us; /* of a block: the exchanges of all levels; loads, stores and strides */
    double reread_bytes; /* of an element, by later passes */
    double idle_part; /* the weight of a vector beyond the row's end */
    double thread_slots, vector_slots; /* issue slots of a thread, and of each of its vectors */
    double exponential_slots; /* of the exponentials of an element */
} md_fa_cuda_row_fixed;
/** The kind of these families; its spec is md_fa_cuda_row. */
extern const md_fa_kind md_fa_cuda_row_kind;
/* A row program at some sizes. */
typedef struct md_fa_cuda_row_work {
    int64_t rows, n; /* n: elements of a row */
    double flops, bytes;
} md_fa_cuda_row_work;

/** The stage at these sizes, from the memo, else in `room`. */
const md_fa_cuda_row_work *md_fa_cuda_row_work_of(md_fa_cuda_row_work *room, const md_fa_target *target,
                                                  const int64_t *size);
void md_fa_cuda_row_fix(md_fa_fixed *out, const md_fa_target *target, const void *spec);
/** Features of a config by what is fixed of it. */
void md_fa_cuda_row_features(md_fa_features *out, const md_fa_target *target, const md_fa_cuda_row_fixed *fixed,
                             const int64_t *size);
/** Lines of memory that an access by single elements touches. */
double md_fa_cuda_row_lines(const md_fa_target *target, int32_t lanes);
/** Blocks of a launch, of `of_block` rows at most. Of single elements each SM gets as many, if they are few. */
int64_t md_fa_cuda_row_blocks(const md_fa_target *target, md_fa_cuda_align align, int32_t lanes, int64_t rows,
                              int64_t of_block);
/** Elements of a thread in the code that takes rows of which it holds `held`, in a kernel for `vectors`. */
double md_fa_cuda_row_own(double vectors, double held);
/** The same for rows of single elements (md_fa_cuda_row_is_single). */
void md_fa_cuda_row_single_features(md_fa_features *out, const md_fa_target *target, const md_fa_cuda_row_fixed *fixed,
                                    const int64_t *size);

#endif
