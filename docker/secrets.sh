#!/bin/sh
# Write the secrets of docker-compose.yml into a folder (secrets/ beside it, unless named). Files that exist are kept, so a
# second run only adds what is missing, and writes spark-defaults.conf again from docker/spark-defaults.conf.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
folder=${1:-$here/../secrets}

# Containers read the files as another user, so only the folder keeps this machine's other users out.
umask 022
mkdir -p "$folder"
chmod 700 "$folder"

random() { od -An -v -tx1 -N "$1" /dev/urandom | tr -d ' \n'; }
# printf is part of the shell, so no secret is on a command line.
write() { [ -s "$folder/$1" ] || { cat > "$folder/.$1" && mv "$folder/.$1" "$folder/$1"; }; }

for name in postgres_password redis_password api_secret_key s3_secret_key spark_secret ledger_key; do
    random 32 | write "$name"
done
random 64 | write jwt_secret
head -c 32 /dev/urandom | base64 | tr '+/' '-_' | write fernet_key

s3='"lakehouse_s3": {"conn_type": "aws", "login": "lakehouse", "password": "'$(cat "$folder/s3_secret_key")'",
  "extra": {"region_name": "us-east-1", "endpoint_url": "http://s3:7070", "aws_allow_http": true}},
 "lakehouse_default": {"conn_type": "lakehouse", "extra": {"aws_conn_id": "lakehouse_s3"}}'
ledger=$(cat "$folder/ledger_key")
printf '{%s}\n' "$s3" | write connections.json
printf '{%s,
 "spark_default": {"conn_type": "spark", "host": "spark://spark-master:7077", "extra": {"deploy-mode": "client"}},
 "lakehouse_ledger": {"conn_type": "lakehouse", "password": "%s"}}\n' "$s3" "$ledger" | write worker_connections.json

rm -f "$folder/spark-defaults.conf"
{ cat "$here/spark-defaults.conf"; printf 'spark.authenticate.secret %s\n' "$(cat "$folder/spark_secret")"; } |
    write spark-defaults.conf
