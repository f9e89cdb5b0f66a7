# One verb per duty. The long ones (bench, tidy, fuzz, soak) are no part of ./test.
.PHONY: build test unit bench format tidy asan tsan fuzz soak clean

build:
	scripts/setup.sh
	scripts/build.sh all

test:
	./test

unit:
	scripts/setup.sh --test
	scripts/build.sh all
	ctest --test-dir build --output-on-failure --parallel 2

bench: build
	build/bin/quire bench machine
	model=$$(scripts/demo_model.sh) && build/bin/quire bench latency --model $$model --input-len 512 --output-len 64

format:
	scripts/setup.sh --develop
	git ls-files '*.h' '*.cc' | xargs clang-format-16 -i

tidy: build
	scripts/setup.sh --develop
	git ls-files 'src/*.cc' | grep -v /kernels/ | xargs -P 2 -n 4 clang-tidy-16 -p build --quiet

asan tsan:
	scripts/sanitizer_test.sh $@ all

fuzz:
	scripts/setup.sh --develop
	cmake --preset fuzz && cmake --build build-fuzz --target fuzzers
	tests/fuzz/run.sh build-fuzz $${SECONDS_EACH:-60}

soak: build
	python3 tests/soak/soak.py build/bin/quire
	python3 tests/soak/soak.py build/bin/quire --adapter-cycles 2000
	python3 tests/soak/soak.py build/bin/quire --demo

clean:
	rm -rf build build-*
