// SPDX-License-Identifier: Apache-2.0
// Folders of measured kernels: each file's columns become shapes and times.
#include "models/files/measurements.hpp"

#include <catch2/catch.hpp>

#include "tests/support/temporary_folder.hpp"

using namespace dovetail;
using Catch::Matchers::Contains;

namespace {

const std::string gemm_rows = "dtype,kernel,m,n,k,us\nbfloat16,a,32,64,128,2.5\nfp8_block,a,32,64,128,1.5\n";

}  // namespace

TEST_CASE("products are read by number format, and of several kernels for one shape the fastest counts") {
  const test::TemporaryFolder folder;
  folder.write("gemm.csv", gemm_rows + "bfloat16,b,32,64,128,2\n");
  FilesRead files;
  const std::vector<MeasuredKernels> all = read_measurements(".", files);
  REQUIRE(all.size() == 2);
  CHECK(all[0].dtype == DType::Bf16);
  REQUIRE(all[0].kernels.size() == 1);
  CHECK(all[0].kernels[0].shape == gemm_shape(32, 64, 128));
  CHECK(all[0].kernels[0].time.value() == Approx(2e-6));
  CHECK(all[1].dtype == DType::Fp8);
}

TEST_CASE("attention and experts are read as the shapes of one rank") {
  const test::TemporaryFolder folder;
  folder.write("attention.csv", "kernel,batch,sequence,heads,kv_heads,head_dim,us\nfa3,2,1024,16,4,128,30\n");
  folder.write("moe.csv",
               "dtype,kernel,tokens,hidden,inter,topk,experts,tp,ep,distribution,us\n"
               "bfloat16,t,512,2048,768,8,128,1,16,balanced,50\n"
               "bfloat16,t,512,2048,768,8,128,1,16,power_law_1.2,90\n");
  FilesRead files;
  const std::vector<MeasuredKernels> all = read_measurements(".", files);
  REQUIRE(all.size() == 2);
  CHECK(all[0].kernels.at(0).shape == attention_shape(2, 1024, 16, 4, 128));
  REQUIRE(all[1].kernels.size() == 1);  // plans give every expert as many rows
  // 512 tokens x 8 experts each are 4096 rows, of which one of 16 ranks works on 256, with 128 / 16 experts.
  CHECK(all[1].kernels[0].shape == experts_shape(256, 8, 2048, 768, 4096));
  CHECK(all[1].kernels[0].time.value() == Approx(50e-6));
}

TEST_CASE("a folder that cannot be used is refused with what is wrong") {
  const test::TemporaryFolder folder;
  FilesRead files;
  const auto read = [&] { return read_measurements(".", files); };
  CHECK_THROWS_WITH(read(),
                    Contains("no measurements, expected gemm.csv, attention.csv, moe.csv, nccl.csv or deepep.csv"));
  CHECK_THROWS_WITH(read_measurements("none", files), Contains("expected a folder of measurements"));
  folder.write("gemm.csv", "dtype,m,n,k,us\nbfloat16,0,64,128,2.5\n");
  CHECK_THROWS_WITH(read(), Contains("gemm.csv:2:10: ") && Contains("expected a whole number from 1 on"));
  folder.write("gemm.csv", "dtype,m,n,k,us\nint7,1,64,128,2.5\n");
  CHECK_THROWS_WITH(read(), Contains("gemm.csv:2:1: \"int7\": unknown"));
  folder.write("gemm.csv", "dtype,m,n,k,us\nbf16,1,64,128,0\n");
  CHECK_THROWS_WITH(read(), Contains("gemm.csv:2:") && Contains("expected a time"));
  folder.write("gemm.csv", "dtype,m,n,us\nbf16,1,64,2\n");
  CHECK_THROWS_WITH(read(), Contains("gemm.csv:1:1: no column \"k\""));
  folder.write("gemm.csv", gemm_rows);
  folder.write("gem.csv", gemm_rows);
  CHECK_THROWS_WITH(read(), Contains("gem.csv") && Contains("unknown file of measurements"));
}

TEST_CASE("collectives are read by their ranks and bytes, and exchanges of tokens by the copies that they send") {
  const test::TemporaryFolder folder;
  folder.write("nccl.csv",
               "collective,dtype,gpus,message_size,us\n"
               "all_reduce,float,4,1000,9\n"
               "alltoall,half,8,1024,20\nalltoall,half,8,1024,12\n");
  folder.write("deepep.csv",
               "nodes,tokens,hidden,topk,experts,sms,dispatch_us,combine_us\n"
               "1,1000,2048,1,64,24,50,60\n"
               "1,1000,2048,2,16,24,70,80\n"
               "8,1000,2048,2,16,24,700,800\n");
  FilesRead files;
  const std::vector<MeasuredKernels> all = read_measurements(".", files);
  REQUIRE(all.size() == 4);
  REQUIRE(all[0].kernels.size() == 1);
  CHECK(all[0].kernels[0].shape == collective_shape(KernelKind::AllToAll, 8, 2048));  // 1024 numbers of 2 bytes
  CHECK(all[0].kernels[0].time.value() == Approx(12e-6));
  CHECK(all[1].kernels.at(0).shape == collective_shape(KernelKind::AllReduce, 4, 4000));
  REQUIRE(all[2].kernels.size() == 2);  // those within one node
  // One expert is on one rank. Two of 16, two of which a rank has: 8 x (1 - 14 x 13 / (16 x 15)) = 1.9333 ranks.
  CHECK(all[2].kernels[0].shape == exchange_shape(KernelKind::Dispatch, 1000, 1000, 2048, 24));
  CHECK(all[2].kernels[1].shape == exchange_shape(KernelKind::Dispatch, 1000, 1933, 2048, 24));
  CHECK(all[3].kernels.at(1).shape == exchange_shape(KernelKind::Combine, 1000, 1933, 2048, 24));
  CHECK(all[3].kernels.at(1).time.value() == Approx(80e-6));
  folder.write("deepep.csv", "nodes,tokens,hidden,topk,experts,sms,dispatch_us,combine_us\n1,1,2048,9,8,24,50,60\n");
  CHECK_THROWS_WITH(read_measurements(".", files), Contains("deepep.csv:2:") && Contains("more than the 8 experts"));
}
