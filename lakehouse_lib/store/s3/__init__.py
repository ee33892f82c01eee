"""The S3 store, on boto3."""
