#!/usr/bin/env bash
# Makes up the passwords that docker-compose.yml mounts as files, once; what is there stays. They lie in
# .millrace/secrets, which git does not see. The folder is closed to other users of this machine; the files themselves
# can be read, because each container runs as another user.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
folder=${MILLRACE_SECRETS:-.millrace/secrets}
mkdir -p "$folder"
chmod 700 "$folder"
for name in mysql_root mysql_owner mysql_reader grafana_admin; do
    file=$folder/$name
    if [[ ! -s $file ]]; then
        od -An -N18 -tx1 /dev/urandom | tr -d ' \n' >"$file.partial"
        chmod 444 "$file.partial"
        mv "$file.partial" "$file"
    fi
done
echo "passwords are in $folder"
