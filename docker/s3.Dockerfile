# The S3 server that `make test-s3` tests with, built from the same source.
FROM golang:1.26-bookworm AS build
RUN CGO_ENABLED=0 go install github.com/versity/versitygw/cmd/versitygw@v1.8.0

FROM debian:bookworm-slim
RUN apt-get update \
    && apt-get install --yes --no-install-recommends curl \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --uid 10001 --create-home --shell /usr/sbin/nologin lakehouse \
    && install -d -o lakehouse -g lakehouse /buckets
COPY --from=build /go/bin/versitygw /usr/local/bin/versitygw
USER lakehouse
