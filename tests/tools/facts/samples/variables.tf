
variable "sagemaker_ml_trn1_32xlarge_for_training_job_usage" {
  description = "Quota for [sagemaker]: ml.trn1.32xlarge for training job usage (L-79A1FE57)"
  type        = number
}
variable "sagemaker_ml_trn1_32xlarge_for_training_warm_pool_usage" {
  description = "Quota for [sagemaker]: ml.trn1.32xlarge for training warm pool usage (L-36F422F7)"
}
variable "sagemaker_ml_trn1_32xlarge_for_endpoint_usage" {
  description = "Quota for [sagemaker]: ml.trn1.32xlarge for endpoint usage (L-11111111)"
}
variable "sagemaker_ml_t9_large_for_training_job_usage" {
  description = "Quota for [sagemaker]: ml.t9.large for training job usage (L-22222222)"
}
variable "braket_ml_p3_2xlarge_for_training_job_usage" {
  description = "Quota for [braket]: ml.p3.2xlarge for training job usage (L-33333333)"
}
