#!/bin/sh
set -e
for name in '${executable}' covey; do
  link="/usr/bin/$name"
  case $(readlink "$link" 2>/dev/null || true) in
    '/opt/${sanitizedProductName}/'*) rm -f "$link" ;;
  esac
done
